/** When what the engine has computed is brought into the kernel: at once, together, again. */
import { Passes, type PassParts } from "../../../../agent/policy/passes.ts";
import type { PacketPolicy } from "../../../../dataplane/packet-policy.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

const EMPTY: PacketPolicy = { endpoints: new Map(), addresses: new Map(), blocks: [] };

/** An engine whose changes are the names that it was told, and a table that notes what it is asked. */
function world(change: Partial<PassParts["table"]> = {}) {
  const clock = new FakeClock();
  const told: string[] = [];
  let parts = 0;
  const asked: string[] = [];
  const drift: string[] = [];
  const log: string[] = [];
  const passes: Passes = new Passes({
    engine: {
      prepare: () => parts-- > 0,
      take: () => ({
        endpoints: new Map(),
        addresses: new Map(told.splice(0).map((name) => [name, "c"])),
        blocks: undefined,
        moved: [],
      }),
      state: EMPTY,
    },
    table: {
      async replace() {
        asked.push("replace");
        return [];
      },
      async apply({ addresses }) {
        asked.push([...addresses.keys()].join());
      },
      ...change,
    },
    onTake: () => {},
    onRealised: () => {},
    onHeld: () => {},
    onDrift: (differences) => drift.push(...differences),
    clock,
    log: { info: (message) => log.push(message), error: (message) => log.push(message) },
  });
  const tell = (name: string) => {
    told.push(name);
    passes.changed();
  };
  return { clock, passes, asked, drift, log, tell, inParts: (count: number) => (parts = count) };
}

/** The same, some time after everything was known and compared. */
async function opened(change: Partial<PassParts["table"]> = {}) {
  const made = world(change);
  made.passes.open();
  await made.clock.advance(1_000);
  return made;
}

describe("passes of policy", () => {
  it("do nothing before everything is known, and begin with a comparison of the whole table", async () => {
    const { clock, passes, asked, tell } = world();
    tell("a");
    await clock.advance(60_000);
    expect([asked, passes.isSettled]).toEqual([[], false]);
    passes.open();
    await settled();
    expect([asked, passes.isSettled]).toEqual([["replace"], true]);
  });

  it("carry out the first change at once, and those of the next 100 ms together", async () => {
    const { clock, asked, tell } = await opened();
    tell("a");
    await settled();
    expect(asked).toEqual(["replace", "a"]);
    for (const name of ["b", "c", "d"]) {
      tell(name);
      await clock.advance(10);
    }
    expect(asked).toEqual(["replace", "a"]);
    await clock.advance(100);
    expect(asked).toEqual(["replace", "a", "b,c,d"]);
  });

  it("do not let an ADD wait for the 100 ms", async () => {
    const { clock, passes, asked, tell } = await opened();
    tell("a");
    await settled();
    tell("b");
    await passes.settled(NEVER);
    expect([asked, clock.now()]).toEqual([["replace", "a", "b"], 1_000]);
    await passes.settled(NEVER);
    expect(asked).toHaveLength(3);
  });

  it("begin for an ADD in the turn of the event loop that tells of it, the pause of an earlier one or not", async () => {
    const { clock, passes, asked, tell } = await opened();
    for (const name of ["a", "b"]) {
      let turns = 0;
      setImmediate(() => turns++);
      tell(name);
      await passes.settled(NEVER);
      expect([asked.at(-1), turns]).toEqual([name, 0]);
      await clock.advance(20);
    }
    tell("c");
    await settled();
    let turns = 0;
    setImmediate(() => turns++);
    await passes.settled(NEVER);
    expect([asked.at(-1), turns]).toEqual(["c", 0]);
  });

  it("are shared by ADDs of a burst, four at most, and wait for no more than come one in each turn of the event loop", async () => {
    const { passes, asked, tell } = await opened();
    const adds: Promise<void>[] = [];
    for (const name of ["a", "b", "c", "d", "e", "f", "g"]) {
      tell(name);
      adds.push(passes.settled(NEVER));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(adds);
    expect(asked).toEqual(["replace", "a", "b,c,d,e", "f,g"]);
  });

  it("of a burst wait no longer for other ADDs than 20 ms", async () => {
    const { clock, passes, asked, tell } = await opened();
    let now = clock.now();
    jest.spyOn(clock, "now").mockImplementation(() => now);
    const adds: Promise<void>[] = [];
    for (const name of ["a", "b", "c", "d", "e"]) {
      tell(name);
      adds.push(passes.settled(NEVER));
      await new Promise((resolve) => setImmediate(resolve));
      now += 10;
    }
    await Promise.all(adds);
    expect(asked).toEqual(["replace", "a", "b,c,d", "e"]);
  });

  it("make one after the other, and tell an ADD when the one has ended that holds its own change", async () => {
    const turns: PromiseWithResolvers<void>[] = [];
    const { passes, asked, tell } = world({
      apply: async ({ addresses }) => {
        asked.push([...addresses.keys()].join());
        const turn = Promise.withResolvers<void>();
        turns.push(turn);
        await turn.promise;
      },
    });
    passes.open();
    await settled();
    const ended: string[] = [];
    tell("a");
    void passes.settled(NEVER).then(() => ended.push("a"));
    await settled();
    tell("b");
    void passes.settled(NEVER).then(() => ended.push("b"));
    await settled();
    expect([asked, ended]).toEqual([["replace", "a"], []]);
    turns[0]?.resolve();
    await settled();
    expect([asked, ended]).toEqual([["replace", "a", "b"], ["a"]]);
    turns[1]?.resolve();
    await settled();
    expect(ended).toEqual(["a", "b"]);
  });

  it("let others run between the parts of a large change", async () => {
    const { passes, asked, tell, inParts } = world();
    passes.open();
    await settled();
    inParts(3);
    let turns = 0;
    const turn = () => {
      turns++;
      if (asked.length < 2) setImmediate(turn);
    };
    tell("a");
    turn();
    await passes.settled(NEVER);
    expect(asked).toEqual(["replace", "a"]);
    expect(turns).toBeGreaterThanOrEqual(3);
  });

  it("are tried again after a failure with growing pauses, say it once, and then compare the whole table", async () => {
    let isBroken = true;
    const { clock, passes, asked, log, tell } = world({
      apply: async () => {
        asked.push("apply");
        throw new Error("no room");
      },
      replace: async () => {
        asked.push("replace");
        if (isBroken) throw new Error("no room");
        return ["x"];
      },
    });
    passes.open();
    await clock.advance(10_000);
    expect(passes.problem).toBe("no room");
    const tries = asked.length;
    expect(tries).toBeGreaterThan(3);
    expect(tries).toBeLessThan(9);
    expect(log).toEqual(["policy is not brought into the kernel, it is tried again: no room"]);
    isBroken = false;
    await clock.advance(30_000);
    expect([passes.problem, passes.isSettled]).toEqual([undefined, true]);
    expect(log.slice(1)).toEqual(["policy was compared with the kernel and mended", "policy is in the kernel again"]);

    isBroken = true;
    tell("a");
    await settled();
    expect(asked.slice(-1)).toEqual(["apply"]);
    isBroken = false;
    await clock.advance(1_000);
    expect([asked.slice(-2), passes.isSettled]).toEqual([["apply", "replace"], true]);
  });

  it("count as drift what differs although nothing was told, and nothing else", async () => {
    let found: readonly string[] = ["at the start"];
    const { clock, passes, drift, log, tell } = await opened({ replace: async () => found });
    expect(drift).toEqual([]);
    found = [];
    passes.compare();
    await clock.advance(1_000);
    found = Array.from({ length: 12 }, (_, at) => `map m lacks ${at}`);
    passes.compare();
    await clock.advance(1_000);
    expect(drift).toHaveLength(12);
    expect(log.filter((line) => line.includes("differed and was mended"))).toHaveLength(10);
    tell("a");
    passes.compare();
    await clock.advance(1_000);
    expect(drift).toHaveLength(12);
  });

  it("end a wait with the reason of its signal, and tell who waits for the next pass", async () => {
    const { passes } = world();
    const controller = new AbortController();
    const waiting = passes.settled(controller.signal);
    controller.abort(new Error("nobody wants it"));
    await expect(waiting).rejects.toThrow("nobody wants it");
    const ended = passes.ended(NEVER);
    passes.open();
    await ended;
    expect(passes.isSettled).toBe(true);
    await passes.stop();
    passes.changed();
    await settled();
    expect(passes.isSettled).toBe(false);
  });

  it("compare for whoever asks after the table was read once more, and say when the kernel refuses", async () => {
    const [reads, refusals]: [PromiseWithResolvers<void>[], string[]] = [[], []];
    const { clock, passes } = world({
      async replace() {
        const read = Promise.withResolvers<void>();
        reads.push(read);
        await read.promise;
        return [];
      },
    });
    passes.open();
    await settled();
    let isOver = false;
    void passes.compared(NEVER).then(() => (isOver = true));
    reads[0]?.resolve();
    await clock.advance(100);
    expect([reads.length, isOver, passes.isSettled]).toEqual([2, false, false]);
    reads[1]?.resolve();
    await settled();
    expect([reads.length, isOver, passes.isSettled]).toEqual([2, true, true]);

    passes.compared(NEVER).catch((error: Error) => refusals.push(error.message));
    await clock.advance(100);
    reads[2]?.reject(new Error("no room"));
    await settled();
    expect(refusals).toEqual(["no room"]);
  });
});
