import { type BuildReport, type Level, type Mendable, Mending, mendingLane } from "../../../../agent/endpoints/mending.ts";
import { type Actor, judgeTransition, STATES, type State } from "../../../../agent/endpoints/status.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import type { Lane } from "../../../../lib/system/lane.ts";
import { NEVER } from "../../../../lib/system/waiting.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

/** An endpoint in memory only, which writes down what is done with it. */
class PlainEndpoint implements Mendable {
  record = recordOf(1);
  readonly notes: string[] = [];
  readonly moves: (readonly [from: State, to: State])[] = [];
  state: State = "ready";
  onBegin: () => void = () => {};

  transition(to: State, _reason: string, actor: Actor = "anybody"): boolean {
    if (judgeTransition(this.state, to, actor) !== "allowed") return false;
    this.moves.push([this.state, to]);
    this.state = to;
    if (to === "regenerating") this.onBegin();
    return true;
  }

  note(_code: string, _type: string, message: string): void {
    this.notes.push(message);
  }

  write(record: EndpointRecord): EndpointRecord {
    this.record = record;
    return record;
  }
}

function benchOf(mend: (signal: AbortSignal) => Promise<void>, state: State = "ready", lane = mendingLane(2)) {
  const clock = new FakeClock();
  const endpoint = new PlainEndpoint();
  endpoint.state = state;
  /** How often the link was looked at. */
  const looks = { count: 0 };
  const reports: BuildReport[] = [];
  const mending = new Mending(endpoint, {
    lane,
    clock,
    mend: (_, signal) => {
      looks.count++;
      return mend(signal);
    },
    onBuilt: (report) => reports.push(report),
  });
  return { endpoint, mending, clock, looks, reports };
}

/** Takes every place of the lane. @returns what gives them back */
async function takeAll(lane: Lane): Promise<() => void> {
  const held = Promise.withResolvers<void>();
  for (let count = 0; count < 2; count++) {
    void lane.run(
      NEVER,
      () => held.promise,
      () => false,
    );
  }
  await settled();
  return held.resolve;
}

/** The transitions of A§5.3, written again: from, to, and who may. */
const TABLE: Readonly<Record<State, Readonly<Record<string, "x" | "b">>>> = {
  none: { creating: "x", restoring: "x" },
  creating: { "waiting-for-identity": "x", disconnecting: "x" },
  "waiting-for-identity": { ready: "x", disconnecting: "x" },
  ready: { "waiting-to-regenerate": "x", disconnecting: "x" },
  "waiting-to-regenerate": { regenerating: "b", disconnecting: "x" },
  regenerating: { ready: "b", "waiting-to-regenerate": "x", disconnecting: "x" },
  restoring: { regenerating: "b", disconnecting: "x" },
  disconnecting: { disconnected: "x" },
  disconnected: {},
};

describe("transitions between states", () => {
  it.each(STATES)("from %s are those of the table", (from) => {
    for (const to of STATES) {
      const who = TABLE[from][to];
      expect([from, to, judgeTransition(from, to, "anybody") === "allowed"]).toEqual([from, to, who === "x"]);
      expect([from, to, judgeTransition(from, to, "builder") === "allowed"]).toEqual([from, to, who !== undefined]);
    }
  });

  it("are refused without a word where a build was overtaken", () => {
    expect(judgeTransition("waiting-to-regenerate", "waiting-to-regenerate", "anybody")).toBe("overtaken");
    expect(judgeTransition("waiting-to-regenerate", "ready", "builder")).toBe("overtaken");
    expect(judgeTransition("waiting-to-regenerate", "ready", "anybody")).toBe("refused");
  });
});

describe("the mending of an endpoint", () => {
  it("A-L01: makes only the transitions of the table, and follows each trigger with a run of at least its level", async () => {
    const random = seededRandom(17);
    const below = (limit: number) => Math.floor(random() * limit);
    /** Levels that were asked for since the last run began. */
    let open: Level[] = [];
    /** The highest of them, for each run. */
    const asked: number[] = [];
    const { endpoint, mending, clock, reports } = benchOf(async () => {
      for (let turns = below(3); turns > 0; turns--) await null;
      if (random() < 0.1) throw new Error("by chance");
    }, "restoring");
    endpoint.onBegin = () => {
      asked.push(Math.max(0, ...open));
      open = [];
    };
    let step = 0;
    const task = async () => {
      while (step < 20_000) {
        step++;
        if (random() < 0.6) {
          const level = ([1, 2, 3, 4] as const)[below(4)] ?? 1;
          open.push(level);
          mending.trigger({ level, reason: `trigger ${step}`, isRestore: step === 100 });
        }
        if (random() < 0.3) await new Promise((resolve) => setImmediate(resolve));
        else await null;
      }
    };

    await Promise.all(Array.from({ length: 20 }, task));
    for (let tries = 0; tries < 200 && (open.length > 0 || endpoint.state !== "ready"); tries++) await clock.advance(120_000);

    expect(open).toEqual([]);
    expect(reports.length).toBe(asked.length);
    expect(reports.filter(({ level }, at) => level < (asked[at] ?? 0))).toEqual([]);
    expect(endpoint.state).toBe("ready");
    expect(endpoint.moves.filter(([from, to]) => TABLE[from][to] === undefined)).toEqual([]);
    expect(endpoint.moves.length).toBeGreaterThan(500);
  });

  it("A-L02: is one more run after 30 triggers during a run, of the highest level", async () => {
    const first = Promise.withResolvers<void>();
    const { mending, endpoint, looks, reports } = benchOf(() => (looks.count === 1 ? first.promise : Promise.resolve()));
    mending.trigger({ level: 1, reason: "first" });
    await settled();
    expect(endpoint.state).toBe("regenerating");

    for (let at = 0; at < 30; at++) mending.trigger({ level: at === 12 ? 4 : 2, reason: `trigger ${at}` });
    expect(endpoint.state).toBe("waiting-to-regenerate");
    first.resolve();
    await settled();

    expect(reports.map(({ level }) => level)).toEqual([1, 4]);
    expect(endpoint.state).toBe("ready");
    expect(endpoint.notes.filter((note) => note.startsWith("Skipped duplicate endpoint regeneration"))).toHaveLength(29);
  });

  it("compares the kernel when any of those that asked wants that, whichever came first, and else does not", async () => {
    for (const [order, wanted] of [
      [[true, false], 2],
      [[false, true], 2],
      [[true, true], 1],
    ] as const) {
      const first = Promise.withResolvers<void>();
      const { mending, looks, reports } = benchOf(() => (looks.count === 1 ? first.promise : Promise.resolve()));
      mending.trigger({ level: 1, reason: "running" });
      await settled();
      for (const isKernelFresh of order) mending.trigger({ level: 1, reason: `fresh ${isKernelFresh}`, isKernelFresh });
      first.resolve();
      await settled();
      expect([reports.length, looks.count]).toEqual([2, wanted]);
    }
  });

  it("leaves the state of an endpoint that waits for its identity", async () => {
    const { mending, endpoint, looks } = benchOf(async () => {}, "waiting-for-identity");
    await mending.run({ level: 3, reason: "Initial build on endpoint creation" });
    expect([looks.count, endpoint.state, endpoint.moves]).toEqual([1, "waiting-for-identity", []]);
  });

  it("waits for the end of a restore, and joins its run", async () => {
    const { mending, endpoint, looks, reports } = benchOf(async () => {}, "restoring");
    const early = mending.run({ level: 4, reason: "policy rules added" });
    await settled();
    expect(looks.count).toBe(0);
    await mending.run({ level: 3, reason: "syncing state to host", isRestore: true });
    await early;
    expect(reports.map(({ level }) => level)).toEqual([4]);
    expect(endpoint.state).toBe("ready");
  });

  it("is refused in a state that allows none", async () => {
    const { mending } = benchOf(async () => {}, "creating");
    await expect(mending.run({ level: 1, reason: "drift" })).rejects.toThrow("Skipping build due to invalid state: creating");
  });

  it("that fails is tried again with growing pauses, and so is a failure after a success", async () => {
    let isBroken = true;
    const { mending, endpoint, clock, reports } = benchOf(async () => {
      if (isBroken) throw new Error("no");
    });
    await expect(mending.run({ level: 1, reason: "drift" })).rejects.toThrow("no");
    expect(endpoint.state).toBe("ready");
    await clock.advance(1_000);
    await clock.advance(2_000);
    await clock.advance(4_000);
    expect(clock.pauses).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(reports.map(({ level }) => level)).toEqual([1, 3, 3, 3]);
    isBroken = false;
    await clock.advance(8_000);
    expect(reports).toHaveLength(5);

    isBroken = true;
    mending.trigger({ level: 1, reason: "drift" });
    await clock.advance(1_000);
    expect(clock.pauses.slice(4)).toEqual([1_000, 2_000]);
    expect(reports).toHaveLength(7);
  });

  it("ends when the endpoint is removed, and whoever waited is told", async () => {
    const { mending, endpoint, looks } = benchOf((signal) => {
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const running = mending.run({ level: 1, reason: "first" });
    const outcome = expect(running).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    const waiting = expect(mending.run({ level: 1, reason: "second" })).rejects.toMatchObject({ word: "endpoint-removed" });
    endpoint.transition("disconnecting", "removed");
    await mending.stop();
    await Promise.all([outcome, waiting]);
    expect(looks.count).toBe(1);
  });

  it("S4: lets waiting calls run before it looks at the kernel", async () => {
    const order: string[] = [];
    const looking = () => {
      order.push("look");
      setImmediate(() => order.push("call"));
      return Promise.resolve();
    };
    const [first, second] = [benchOf(looking), benchOf(looking)];
    const run = first.mending.run({ level: 1, reason: "restore" });
    await Promise.resolve();
    await Promise.resolve();
    expect(order).toEqual([]);
    await run;
    await second.mending.run({ level: 1, reason: "restore" });
    expect(order).toEqual(["look", "call", "look"]);
  });

  it("looks at nothing when it was given up before its turn", async () => {
    const { mending, endpoint, looks } = benchOf(async () => {});
    const outcome = expect(mending.run({ level: 1, reason: "drift" })).rejects.toMatchObject({ word: "endpoint-removed" });
    for (let turn = 0; endpoint.state !== "regenerating" && turn < 20; turn++) await null;
    endpoint.transition("disconnecting", "removed");
    await mending.stop();
    await outcome;
    expect([looks.count, endpoint.state]).toEqual([0, "disconnecting"]);
  });
});

describe("the end of a run", () => {
  it("is written down with all that asked for it, and reported with its level", async () => {
    let isBroken = true;
    const { mending, endpoint, reports } = benchOf(async () => {
      if (isBroken) throw new Error("no room");
    });
    await expect(mending.run({ level: 2, reason: "first" })).rejects.toThrow("no room");
    expect(endpoint.notes).toEqual(["Error regenerating endpoint: no room"]);
    isBroken = false;
    mending.trigger({ level: 1, reason: "second" });
    await mending.run({ level: 4, reason: "third" });

    expect(endpoint.notes.at(-1)).toBe("Successfully regenerated endpoint (Reason: second, third)");
    expect(reports).toEqual([
      { outcome: "failure", level: 2, waitedMs: expect.any(Number), tookMs: expect.any(Number) },
      { outcome: "success", level: 4, waitedMs: expect.any(Number), tookMs: expect.any(Number) },
    ]);
  });

  it("is no failure of an endpoint that is removed meanwhile, nor a success, and nothing is tried again", async () => {
    const work = Promise.withResolvers<void>();
    const { mending, endpoint, clock, looks, reports } = benchOf(() => work.promise);
    const outcome = expect(mending.run({ level: 1, reason: "first" })).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    endpoint.transition("disconnecting", "removed");
    const stopped = mending.stop();
    work.resolve();
    await Promise.all([outcome, stopped]);
    await clock.advance(600_000);
    expect([looks.count, reports, endpoint.notes, endpoint.state]).toEqual([1, [], [], "disconnecting"]);
  });

  it("comes to those who wait when the endpoint is removed before its turn, or between two tries", async () => {
    const lane = mendingLane(2);
    const giveBack = await takeAll(lane);
    const waiting = benchOf(async () => {}, "ready", lane);
    const outcome = expect(waiting.mending.run({ level: 1, reason: "first" })).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    await waiting.mending.stop();
    await outcome;
    giveBack();

    const failing = benchOf(async () => {
      throw new Error("no");
    });
    await expect(failing.mending.run({ level: 1, reason: "first" })).rejects.toThrow("no");
    await failing.mending.stop();
    await failing.clock.advance(600_000);
    expect(failing.looks.count).toBe(1);
    failing.endpoint.transition("disconnecting", "removed");
    await expect(failing.mending.run({ level: 1, reason: "late" })).rejects.toMatchObject({ word: "endpoint-removed" });
  });

  it("of a restore is told apart: what joined it is a duplicate, the restore itself is not", async () => {
    const { mending, endpoint, looks } = benchOf(async () => {}, "restoring");
    mending.trigger({ level: 1, reason: "drift" });
    expect(endpoint.notes).toEqual(["Skipped duplicate endpoint regeneration level no-rebuild trigger due to drift"]);
    endpoint.notes.length = 0;
    const other = benchOf(async () => {}, "restoring");
    await other.mending.run({ level: 3, reason: "syncing state to host", isRestore: true });
    expect(other.endpoint.notes).toEqual(["Successfully regenerated endpoint (Reason: syncing state to host)"]);
    expect(looks.count).toBe(0);
  });
});

describe("runs at one time", () => {
  it("are one for each processor, two at least and eight at most", async () => {
    const most = async (processors: number) => {
      const lane = mendingLane(processors);
      for (let count = 0; count < 20; count++) void lane.run(NEVER, () => new Promise(() => {}));
      await settled();
      return lane.running;
    };
    expect(await Promise.all([1, 2, 5, 8, 64].map(most))).toEqual([2, 2, 5, 8, 8]);
  });

  it("come first to the endpoint that an ADD waits for", async () => {
    const lane = mendingLane(2);
    const giveBack = await takeAll(lane);
    const order: string[] = [];
    const benches = ["one", "two", "add"].map((name) => benchOf(async () => void order.push(name), "ready", lane));
    const ends = benches.map(({ mending }, index) => mending.run({ level: 1, reason: "drift", isAwaited: index === 2 }));
    await settled();
    giveBack();
    await Promise.all(ends);
    expect(order).toEqual(["add", "one", "two"]);
  });
});
