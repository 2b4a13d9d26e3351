/** When a cache holds what the server had: by the versions of a list, not by waiting for a bookmark. */
import { catchUp } from "../../../../../lib/kubernetes/watch/catching-up.ts";
import { FakeClock } from "../../../../support/fake-clock.ts";

/** A server with a list, and a cache that a test fills. */
function world(listed: Readonly<Record<string, string>>, version: string) {
  const clock = new FakeClock();
  const held = new Map<string, string>();
  const state = { lists: 0, reached: undefined as string | undefined, isDone: false, error: undefined as unknown };
  const feed = {
    async list(sink: { put(key: string, version: string, decode: () => unknown): void }) {
      state.lists++;
      for (const [key, of] of Object.entries(listed)) sink.put(key, of, () => undefined);
      return version;
    },
  };
  const ending = new AbortController();
  catchUp(feed, { versions: () => held, reached: () => state.reached }, clock, ending.signal).then(
    () => {
      state.isDone = true;
    },
    (error: unknown) => {
      state.error = error;
    },
  );
  const isDoneAfter = async (milliseconds = 10) => {
    await clock.advance(milliseconds);
    return state.isDone;
  };
  return { held, state, ending, isDoneAfter };
}

describe("a cache has caught up", () => {
  it("when it has every listed object in that version or a later one", async () => {
    const { held, isDoneAfter } = world({ "a/x": "9", "a/y": "12" }, "20");
    expect(await isDoneAfter()).toBe(false);
    held.set("a/x", "9");
    held.set("a/y", "11");
    expect(await isDoneAfter()).toBe(false);
    held.set("a/y", "100");
    expect(await isDoneAfter()).toBe(true);
  });

  it("when what the server has deleted is gone, while what is newer than the list may be there", async () => {
    const { held, isDoneAfter } = world({}, "20");
    held.set("a/old", "7");
    held.set("a/new", "21");
    expect(await isDoneAfter()).toBe(false);
    held.delete("a/old");
    expect(await isDoneAfter()).toBe(true);
  });

  it("when the watch has come to the version of the list, whatever has gone since", async () => {
    const { state, isDoneAfter } = world({ "a/x": "9" }, "20");
    state.reached = "19";
    expect(await isDoneAfter()).toBe(false);
    state.reached = "20";
    expect(await isDoneAfter()).toBe(true);
  });

  it("with versions that are no numbers only when they are the same", async () => {
    const { held, isDoneAfter } = world({ "a/x": "x9" }, "y");
    held.set("a/x", "x10");
    expect(await isDoneAfter()).toBe(false);
    held.set("a/x", "x9");
    expect(await isDoneAfter()).toBe(true);
  });

  it("is looked at with a new list when an object never comes, until the caller gives up", async () => {
    const { state, ending, isDoneAfter } = world({ "a/x": "9" }, "20");
    expect(await isDoneAfter(5_000)).toBe(false);
    expect(state.lists).toBe(3);
    ending.abort(new Error("enough"));
    await isDoneAfter();
    expect(state.error).toEqual(new Error("enough"));
  });
});
