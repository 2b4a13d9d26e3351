import { AttachmentTurns, type Turn, type TurnKind } from "../../../../agent/attachments/turns.ts";
import { TortieError } from "../../../../lib/errors/errors.ts";
import { settled } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";

/** An operation that ends when the test says so. */
interface Step {
  readonly signal: AbortSignal;
  end(outcome: string): void;
  fail(error: unknown): void;
}

class Line {
  readonly turns = new AttachmentTurns<string>();
  /** Operations that have begun, in their order. */
  readonly begun: (Step & { readonly name: string })[] = [];

  call(name: string, kind: TurnKind, options: Partial<Turn> = {}): { readonly answer: Promise<string>; leave(reason?: unknown): void } {
    const caller = new AbortController();
    const turn = { key: "net1:cid1:eth0", kind, digest: name, caller: caller.signal, ...options };
    const answer = this.turns.run(turn, (signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      this.begun.push({ name, signal, end: resolve, fail: reject });
      return promise;
    });
    answer.catch(() => undefined);
    return { answer, leave: (reason) => caller.abort(reason) };
  }

  get names(): string[] {
    return this.begun.map(({ name }) => name);
  }

  at(index: number): Step {
    const step = this.begun[index];
    if (step === undefined) throw new Error(`operation ${index} has not begun; begun: ${this.names.join(", ")}`);
    return step;
  }
}

const line = fresh(() => new Line());

describe("Operations of one attachment", () => {
  it("run one at a time, in the order of their arrival", async () => {
    const first = line.call("del", "del");
    const second = line.call("add", "add");
    const third = line.call("check", "check");
    await settled();
    expect(line.names).toEqual(["del"]);

    line.at(0).end("deleted");
    await expect(first.answer).resolves.toBe("deleted");
    await settled();
    expect(line.names).toEqual(["del", "add"]);

    line.at(1).fail(new Error("no address"));
    await expect(second.answer).rejects.toThrow("no address");
    await settled();
    line.at(2).end("checked");
    await expect(third.answer).resolves.toBe("checked");
    expect(line.turns.busy()).toEqual([]);
  });

  it("do not wait for those of another attachment", async () => {
    line.call("one", "add");
    line.call("other", "add", { key: "net1:cid1:eth1" });
    await settled();
    expect(line.names).toEqual(["one", "other"]);
  });

  it("are one when equal ADDs come at once, with one outcome for all callers", async () => {
    const callers = [line.call("add", "add"), line.call("add", "add"), line.call("add", "add")];
    await settled();
    expect(line.names).toEqual(["add"]);
    line.at(0).end("result");
    await expect(Promise.all(callers.map(({ answer }) => answer))).resolves.toEqual(["result", "result", "result"]);
  });

  it("are two when the ADDs differ", async () => {
    line.call("add", "add");
    line.call("other", "add");
    await settled();
    expect(line.names).toEqual(["add"]);
    line.at(0).end("first");
    await settled();
    expect(line.names).toEqual(["add", "other"]);
  });

  it("A-A09: a DEL ends the ADDs before it, and runs when what they made is taken back", async () => {
    const running = line.call("add", "add");
    const waiting = line.call("other", "add");
    const del = line.call("del", "del");
    await settled();
    expect(line.names).toEqual(["add"]);
    const { signal } = line.at(0);
    expect(signal.reason).toMatchObject({ word: "attachment-deleted" });

    line.at(0).fail(signal.reason);
    await expect(running.answer).rejects.toMatchObject({ word: "attachment-deleted" });
    await expect(waiting.answer).rejects.toMatchObject({ word: "attachment-deleted" });
    await settled();
    expect(line.names).toEqual(["add", "del"]);
    line.at(1).end("deleted");
    await expect(del.answer).resolves.toBe("deleted");
  });

  it("do not join an ADD that is being taken back", async () => {
    const gone = line.call("add", "add");
    await settled();
    gone.leave();
    const again = line.call("add", "add");
    line.at(0).fail(line.at(0).signal.reason);
    await settled();
    line.at(1).end("result");
    await expect(again.answer).resolves.toBe("result");
  });
});

describe("A caller that goes away", () => {
  it("ends its ADD when it was the only one", async () => {
    const only = line.call("add", "add");
    await settled();
    only.leave();
    await expect(only.answer).rejects.toMatchObject({ word: "caller-gone" });
    expect(line.at(0).signal.aborted).toBe(true);
    // The line goes on only when the ADD has been taken back.
    line.call("add", "add");
    await settled();
    expect(line.names).toEqual(["add"]);
  });

  it("leaves an ADD that another caller waits for", async () => {
    const first = line.call("add", "add");
    const second = line.call("add", "add");
    await settled();
    first.leave();
    await expect(first.answer).rejects.toMatchObject({ word: "caller-gone" });
    expect(line.at(0).signal.aborted).toBe(false);
    line.at(0).end("result");
    await expect(second.answer).resolves.toBe("result");
  });

  it("leaves a DEL, which is carried out all the same", async () => {
    const del = line.call("del", "del");
    await settled();
    del.leave();
    await expect(del.answer).rejects.toMatchObject({ word: "caller-gone" });
    expect(line.at(0).signal.aborted).toBe(false);
  });

  it("before its turn has nothing done for it", async () => {
    line.call("del", "del");
    const add = line.call("add", "add");
    await settled();
    add.leave();
    line.at(0).end("deleted");
    await expect(add.answer).rejects.toMatchObject({ word: "caller-gone" });
    await settled();
    expect(line.names).toEqual(["del"]);
    expect(line.turns.busy()).toEqual([]);
  });

  it("is told its own reason, such as a time that is over", async () => {
    const add = line.call("add", "add");
    await settled();
    add.leave(new TortieError("agent-timeout", "not done within 1 s"));
    await expect(add.answer).rejects.toMatchObject({ word: "agent-timeout" });
  });
});
