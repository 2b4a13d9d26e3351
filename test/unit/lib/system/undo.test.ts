import { UndoStack } from "../../../../lib/system/undo.ts";

/** Runs the steps as `await using` does at the end of its block; what was thrown there is the result. */
async function undo(stack: UndoStack): Promise<unknown> {
  try {
    await stack[Symbol.asyncDispose]();
    return undefined;
  } catch (error) {
    return error;
  }
}

describe("UndoStack", () => {
  it("undoes the last step first, and each before the next begins", async () => {
    const done: string[] = [];
    const stack = new UndoStack();
    stack.defer(() => void done.push("first"));
    stack.defer(async () => {
      await Bun.sleep(1);
      done.push("second");
    });
    expect(await undo(stack)).toBeUndefined();
    expect(done).toEqual(["second", "first"]);
  });

  it("undoes nothing once everything is kept, and nothing twice", async () => {
    const done: string[] = [];
    const stack = new UndoStack();
    stack.defer(() => void done.push("kept"));
    stack.keepAll();
    stack.defer(() => void done.push("later"));
    await undo(stack);
    await undo(stack);
    expect(done).toEqual(["later"]);
  });

  it("goes on after a step that fails, and throws the first failure wrapped by the later one", async () => {
    const done: string[] = [];
    const [first, later] = [new Error("first"), new Error("later")];
    const stack = new UndoStack();
    stack.defer(() => void done.push("bottom"));
    stack.defer(() => Promise.reject(later));
    stack.defer(() => {
      throw first;
    });
    const thrown = await undo(stack);
    expect(done).toEqual(["bottom"]);
    expect(thrown).toBeInstanceOf(SuppressedError);
    expect(thrown).toMatchObject({ error: later, suppressed: first });
  });

  it("throws a single failure as it is", async () => {
    const failure = new Error("only");
    const stack = new UndoStack();
    stack.defer(() => Promise.reject(failure));
    expect(await undo(stack)).toBe(failure);
  });
});
