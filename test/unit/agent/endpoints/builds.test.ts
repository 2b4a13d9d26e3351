import { type Buildable, type BuildReport, Builds, type BuildWork } from "../../../../agent/endpoints/build/builds.ts";
import type { Level } from "../../../../agent/endpoints/build/levels.ts";
import { defaultPermits, Permits } from "../../../../agent/endpoints/build/permits.ts";
import { Recovery } from "../../../../agent/endpoints/build/recovery.ts";
import { type Actor, judgeTransition, type State } from "../../../../agent/endpoints/state/states.ts";
import type { EndpointRecord } from "../../../../handover/record.ts";
import { recordOf } from "../../../support/endpoint-record.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

/** An endpoint in memory only, which writes down what is done with it. */
class PlainEndpoint implements Buildable {
  record = recordOf(1);
  readonly notes: string[] = [];
  readonly moves: (readonly [from: State, to: State])[] = [];
  state: State = "ready";

  transition(to: State, _reason: string, actor: Actor = "anybody"): boolean {
    if (judgeTransition(this.state, to, actor) !== "allowed") return false;
    this.moves.push([this.state, to]);
    this.state = to;
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

interface Bench {
  readonly endpoint: PlainEndpoint;
  readonly builds: Builds;
  readonly clock: FakeClock;
  readonly works: BuildWork[];
  readonly reports: BuildReport[];
}

function benchOf(build: (work: BuildWork, signal: AbortSignal) => Promise<void>, state: State = "ready", permits = new Permits(2)): Bench {
  const clock = new FakeClock();
  const endpoint = new PlainEndpoint();
  endpoint.state = state;
  const works: BuildWork[] = [];
  const reports: BuildReport[] = [];
  const builds = new Builds(endpoint, {
    permits,
    recovery: new Recovery(clock),
    build: (_, work, signal) => {
      works.push(work);
      return build(work, signal);
    },
    onBuilt: (report) => reports.push(report),
  });
  return { endpoint, builds, clock, works, reports };
}

/** The transitions of A§5.3, written again: from, to, and who may. */
const TABLE: Readonly<Record<string, Readonly<Record<string, "x" | "b">>>> = {
  none: { creating: "x", "waiting-for-identity": "x", restoring: "x" },
  creating: { "waiting-for-identity": "x", disconnecting: "x" },
  "waiting-for-identity": { ready: "x", disconnecting: "x", invalid: "x" },
  ready: { "waiting-for-identity": "x", "waiting-to-regenerate": "x", restoring: "x", disconnecting: "x" },
  "waiting-to-regenerate": { "waiting-for-identity": "x", regenerating: "b", restoring: "x", disconnecting: "x" },
  regenerating: { "waiting-for-identity": "x", ready: "b", "waiting-to-regenerate": "x", restoring: "x", disconnecting: "x" },
  restoring: { regenerating: "b", restoring: "x", disconnecting: "x" },
  disconnecting: { disconnected: "x" },
  disconnected: {},
  invalid: {},
};
const STATES = Object.keys(TABLE) as State[];

describe("transitions between states", () => {
  it.each(STATES)("from %s are those of the table", (from) => {
    for (const to of STATES) {
      const who = TABLE[from]?.[to];
      expect([from, to, judgeTransition(from, to, "anybody") === "allowed"]).toEqual([from, to, who === "x"]);
      expect([from, to, judgeTransition(from, to, "builder") === "allowed"]).toEqual([from, to, who !== undefined]);
    }
  });

  it("are refused without a word where a build was overtaken", () => {
    expect(judgeTransition("waiting-to-regenerate", "waiting-to-regenerate", "anybody")).toBe("overtaken");
    expect(judgeTransition("waiting-to-regenerate", "ready", "builder")).toBe("overtaken");
    expect(judgeTransition("restoring", "ready", "builder")).toBe("overtaken");
    expect(judgeTransition("restoring", "ready", "anybody")).toBe("refused");
  });
});

describe("builds of an endpoint", () => {
  it("A-L01: make only the transitions of the table, and follow each trigger with a build of at least its level", async () => {
    const random = seededRandom(17);
    const below = (limit: number) => Math.floor(random() * limit);
    let step = 0;
    /** Levels that were asked for and not built since. */
    let open: Level[] = [];
    const { endpoint, builds, clock } = benchOf(async ({ level }) => {
      const covered = open;
      open = [];
      expect(level).toBeGreaterThanOrEqual(Math.max(0, ...covered));
      for (let turns = below(3); turns > 0; turns--) await null;
      if (random() < 0.1) {
        // What failed is asked for again.
        open.push(level);
        throw new Error("by chance");
      }
    });
    const task = async () => {
      while (step < 100_000) {
        step++;
        const chance = random();
        if (chance < 0.6) {
          const level = ([1, 2, 3, 4] as const)[below(4)] ?? 1;
          open.push(level);
          builds.trigger({ level, reason: `trigger ${step}` });
        } else if (chance < 0.75) endpoint.transition("waiting-for-identity", "labels changed");
        else if (chance < 0.9 && endpoint.state === "waiting-for-identity") endpoint.transition("ready", "identity known");
        else if (chance < 0.91 && endpoint.transition("restoring", "by a test")) {
          open.push(3);
          builds.trigger({ level: 3, reason: "syncing state to host", isRestore: true });
        }
        await null;
      }
    };

    await Promise.all(Array.from({ length: 20 }, task));
    if (endpoint.state === "waiting-for-identity") endpoint.transition("ready", "identity known");
    for (let tries = 0; tries < 200 && (open.length > 0 || builds.pendingLevel !== undefined); tries++) await clock.advance(120_000);

    expect(open).toEqual([]);
    expect(endpoint.state).toBe("ready");
    expect(endpoint.moves.filter(([from, to]) => TABLE[from]?.[to] === undefined)).toEqual([]);
    expect(endpoint.moves.length).toBeGreaterThan(10_000);
  });

  it("A-L02: 30 triggers during a build are exactly one more build, of the highest level", async () => {
    const first = Promise.withResolvers<void>();
    const { builds, endpoint, works } = benchOf(({ reason }) => (reason === "first" ? first.promise : Promise.resolve()));
    builds.trigger({ level: 1, reason: "first" });
    await settled();
    expect(endpoint.state).toBe("regenerating");

    for (let at = 0; at < 30; at++) builds.trigger({ level: at === 12 ? 4 : 2, reason: `trigger ${at}` });
    expect(endpoint.state).toBe("waiting-to-regenerate");
    first.resolve();
    await builds.idle();

    expect(works.map(({ level }) => level)).toEqual([1, 4]);
    expect(endpoint.state).toBe("ready");
    expect(endpoint.notes.filter((note) => note.startsWith("Skipped duplicate endpoint regeneration"))).toHaveLength(29);
  });

  it("compare the kernel when any of those that asked for the build wants that, whichever came first", async () => {
    for (const order of [
      [true, false],
      [false, true],
    ]) {
      const first = Promise.withResolvers<void>();
      const { builds, works } = benchOf(() => (works.length === 1 ? first.promise : Promise.resolve()));
      builds.trigger({ level: 1, reason: "running" });
      await settled();
      for (const isKernelFresh of order) builds.trigger({ level: 1, reason: `fresh ${isKernelFresh}`, isKernelFresh });
      first.resolve();
      await builds.idle();
      expect(works.map(({ isKernelFresh }) => isKernelFresh)).toEqual([false, false]);
    }
  });

  it("leave the state of an endpoint that waits for its identity", async () => {
    const { builds, endpoint, works } = benchOf(async () => {}, "waiting-for-identity");
    await builds.build({ level: 3, reason: "Initial build on endpoint creation" });
    expect([works.length, endpoint.state, endpoint.moves]).toEqual([1, "waiting-for-identity", []]);
  });

  it("wait for the end of a restore, and join its build", async () => {
    const { builds, endpoint, works } = benchOf(async () => {}, "restoring");
    const early = builds.build({ level: 4, reason: "policy rules added" });
    await settled();
    expect(works).toEqual([]);
    await builds.build({ level: 3, reason: "syncing state to host", isRestore: true });
    await early;
    expect(works.map(({ level }) => level)).toEqual([4]);
    expect(endpoint.state).toBe("ready");
  });

  it("are refused in a state that allows none", async () => {
    const { builds } = benchOf(async () => {}, "creating");
    await expect(builds.build({ level: 1, reason: "drift" })).rejects.toThrow("Skipping build due to invalid state: creating");
  });

  it("that fail are tried again with growing pauses, and so is a failure after a success", async () => {
    let isBroken = true;
    const { builds, endpoint, clock, works } = benchOf(async () => {
      if (isBroken) throw new Error("no");
    });
    await expect(builds.build({ level: 1, reason: "drift" })).rejects.toThrow("no");
    expect(endpoint.state).toBe("ready");
    await clock.advance(1_000);
    await clock.advance(2_000);
    await clock.advance(4_000);
    expect(clock.pauses).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(works.map(({ level }) => level)).toEqual([1, 3, 3, 3]);
    isBroken = false;
    await clock.advance(8_000);
    expect(works).toHaveLength(5);

    isBroken = true;
    builds.trigger({ level: 1, reason: "drift" });
    await clock.advance(1_000);
    expect(clock.pauses.slice(4)).toEqual([1_000, 2_000]);
    expect(works).toHaveLength(7);
  });

  it("end when the endpoint is removed, and whoever waited is told", async () => {
    const { builds, endpoint, works } = benchOf((_, signal) => {
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const running = builds.build({ level: 1, reason: "first" });
    const outcome = expect(running).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    const waiting = expect(builds.build({ level: 1, reason: "second" })).rejects.toMatchObject({ word: "endpoint-removed" });
    endpoint.transition("disconnecting", "removed");
    await builds.stop();
    await Promise.all([outcome, waiting]);
    expect(works).toHaveLength(1);
  });
});

describe("the end of a build", () => {
  it("is written down with all that asked for it, and reported with its level", async () => {
    let isBroken = true;
    const { builds, endpoint, works, reports } = benchOf(async () => {
      if (isBroken) throw new Error("no room");
    });
    await expect(builds.build({ level: 2, reason: "first" })).rejects.toThrow("no room");
    expect(endpoint.notes).toEqual(["Error regenerating endpoint: no room"]);
    isBroken = false;
    builds.trigger({ level: 1, reason: "second" });
    await builds.build({ level: 4, reason: "third" });

    expect(works.at(-1)).toMatchObject({ level: 4, reason: "second, third" });
    expect(endpoint.notes.at(-1)).toBe("Successfully regenerated endpoint (Reason: second, third)");
    expect(reports).toEqual([
      { outcome: "failure", level: 2, waitedMs: expect.any(Number), tookMs: expect.any(Number) },
      { outcome: "success", level: 4, waitedMs: expect.any(Number), tookMs: expect.any(Number) },
    ]);
  });

  it("is no failure of an endpoint that is removed meanwhile, nor a success, and nothing is tried again", async () => {
    const work = Promise.withResolvers<void>();
    const { builds, endpoint, clock, works, reports } = benchOf(() => work.promise);
    const outcome = expect(builds.build({ level: 1, reason: "first" })).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    endpoint.transition("disconnecting", "removed");
    const stopped = builds.stop();
    work.resolve();
    await Promise.all([outcome, stopped]);
    await clock.advance(600_000);
    expect([works.length, reports, endpoint.notes, endpoint.state]).toEqual([1, [], [], "disconnecting"]);
  });

  it("comes to those who wait when the endpoint is removed before there is a permit, or between two tries", async () => {
    const permits = new Permits(1);
    const held = await permits.acquire(() => 0, new AbortController().signal);
    const waiting = benchOf(async () => {}, "ready", permits);
    const outcome = expect(waiting.builds.build({ level: 1, reason: "first" })).rejects.toMatchObject({ word: "endpoint-removed" });
    await settled();
    await waiting.builds.stop();
    await outcome;
    held[Symbol.dispose]();

    const failing = benchOf(async () => {
      throw new Error("no");
    });
    await expect(failing.builds.build({ level: 1, reason: "first" })).rejects.toThrow("no");
    await failing.builds.stop();
    await failing.clock.advance(600_000);
    expect(failing.works).toHaveLength(1);
    failing.endpoint.transition("disconnecting", "removed");
    await expect(failing.builds.build({ level: 1, reason: "late" })).rejects.toMatchObject({ word: "endpoint-removed" });
  });

  it("of a restore is told apart: what joined it is a duplicate, the restore itself is not", async () => {
    const { builds, endpoint, works } = benchOf(async () => {}, "restoring");
    builds.trigger({ level: 1, reason: "drift" });
    expect(endpoint.notes).toEqual(["Skipped duplicate endpoint regeneration level no-rebuild trigger due to drift"]);
    endpoint.notes.length = 0;
    const other = benchOf(async () => {}, "restoring");
    await other.builds.build({ level: 3, reason: "syncing state to host", isRestore: true });
    expect(other.endpoint.notes).toEqual(["Successfully regenerated endpoint (Reason: syncing state to host)"]);
    expect(works).toEqual([]);
  });

  it("comes first to the endpoint that an ADD waits for", async () => {
    const permits = new Permits(1);
    const held = await permits.acquire(() => 0, new AbortController().signal);
    const order: string[] = [];
    const benches = ["drift", "add"].map((name) => benchOf(async () => void order.push(name), "ready", permits));
    const ends = benches.map(({ builds }, index) => builds.build({ level: 1, reason: "one", isAwaited: index === 1 }));
    await settled();
    held[Symbol.dispose]();
    await Promise.all(ends);
    expect(order).toEqual(["add", "drift"]);
  });
});

describe("permits of builds", () => {
  it("are one for each processor, 2 to 8", () => {
    expect([1, 2, 5, 64].map(defaultPermits)).toEqual([2, 2, 5, 8]);
  });

  it("go first to those that an ADD waits for, then to the longest waiting", async () => {
    const permits = new Permits(1);
    const { signal } = new AbortController();
    const order: string[] = [];
    const held = await permits.acquire(() => 1, signal);
    const take = async (name: string, priority: () => number) => {
      using _ = await permits.acquire(priority, signal);
      order.push(name);
    };
    let isAwaited = false;
    const takers = [take("old", () => 1), take("young", () => 1), take("raised", () => (isAwaited ? 0 : 1))];
    isAwaited = true;
    held[Symbol.dispose]();
    await Promise.all(takers);
    expect(order).toEqual(["raised", "old", "young"]);
  });

  it("are not waited for beyond the end of the endpoint", async () => {
    const permits = new Permits(1);
    await permits.acquire(() => 0, new AbortController().signal);
    const controller = new AbortController();
    const waiting = permits.acquire(() => 0, controller.signal);
    controller.abort(new Error("removed"));
    await expect(waiting).rejects.toThrow("removed");
    expect(permits.waiting).toBe(0);
  });
});
