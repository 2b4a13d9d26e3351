/** A lane of work: how much of it runs at once, who is next, and who does not wait any more (A§2.9, A§5.6). */
import { TortieError } from "../../../../lib/errors/errors.ts";
import { Lane } from "../../../../lib/system/lane.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";

describe("Work in a lane", () => {
  it("is left by a caller who goes away, and done in the order of coming", async () => {
    const lane = new Lane({ running: 1, waiting: 3 });
    const order: number[] = [];
    const first = Promise.withResolvers<void>();
    const gone = new AbortController();
    const calls = [
      lane.run(NEVER, () => first.promise),
      lane.run(NEVER, async () => void order.push(1)),
      lane.run(gone.signal, async () => void order.push(2)),
      lane.run(NEVER, async () => void order.push(3)),
    ];
    gone.abort(new TortieError("caller-gone", "gone"));
    await expect(calls[2]).rejects.toMatchObject({ word: "caller-gone" });
    first.resolve();
    await Promise.all([calls[0], calls[1], calls[3]]);
    expect(order).toEqual([1, 3]);
    expect(lane.running).toBe(0);
  });

  it("is refused when too much waits already", async () => {
    const lane = new Lane({ running: 1, waiting: 1 });
    const first = Promise.withResolvers<void>();
    const calls = [lane.run(NEVER, () => first.promise), lane.run(NEVER, async () => {})];
    await expect(lane.run(NEVER, async () => {})).rejects.toMatchObject({ word: "agent-busy" });
    first.resolve();
    await Promise.all(calls);
  });

  it("is done first where somebody waits for it, asked when a place is free, and then in the order of coming", async () => {
    const lane = new Lane({ running: 1 });
    const order: string[] = [];
    const first = Promise.withResolvers<void>();
    let isRaised = false;
    const take = (name: string, isAwaited: () => boolean) => lane.run(NEVER, async () => void order.push(name), isAwaited);
    const none = () => false;
    const held = lane.run(NEVER, () => first.promise, none);
    const takers = [take("old", none), take("young", none), take("raised", () => isRaised)];
    isRaised = true;
    first.resolve();
    await Promise.all([held, ...takers]);
    expect([order, lane.running]).toEqual([["raised", "old", "young"], 0]);
  });

  it("is not done for who has gone, whether a place is free or comes in the same moment", async () => {
    const lane = new Lane({ running: 1 });
    const first = Promise.withResolvers<void>();
    const held = lane.run(NEVER, () => first.promise);
    const work = jest.fn(async () => {});
    await expect(lane.run(AbortSignal.abort(new Error("gone")), work)).rejects.toThrow("gone");
    const leaving = new AbortController();
    const waiting = expect(lane.run(leaving.signal, work)).rejects.toThrow("gone later");
    leaving.abort(new Error("gone later"));
    first.resolve();
    await Promise.all([waiting, held]);
    await lane.run(NEVER, async () => {});
    expect([work.mock.calls.length, lane.running]).toEqual([0, 0]);
  });
});
