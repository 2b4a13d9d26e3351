/** Background tasks on a clock that the test moves (A§6.1). */
import { newsOf, type TaskRun, Tasks } from "../../../../lib/resident/tasks.ts";
import { FakeClock, settled } from "../../../support/fake-clock.ts";

let clock: FakeClock;
let tasks: Tasks;
let runs: TaskRun[];

beforeEach(() => {
  clock = new FakeClock();
  runs = [];
  tasks = new Tasks({ clock, onRun: (run) => runs.push(run) });
});

const statusOf = (name: string) => tasks.statuses().find((status) => status.name === name)?.status;

/** Counts its runs, and fails those that it is told to. */
function work(fails: (run: number) => boolean = () => false) {
  const began: number[] = [];
  return {
    began,
    run: async () => {
      began.push(clock.now());
      if (fails(began.length)) throw new Error(`failure ${began.length}`);
    },
  };
}

describe("A-O05: a task", () => {
  it("runs at once, and again an interval after each success", async () => {
    const { began, run } = work();
    tasks.update("a", { run, intervalMs: 10_000 });
    await clock.advance(25_000);
    expect(began).toEqual([0, 10_000, 20_000]);
    expect(statusOf("a")).toEqual({
      "success-count": 3,
      "last-success-timestamp": "2030-01-01T00:00:20.000Z",
      "failure-count": 0,
      "consecutive-failure-count": 0,
    });
  });

  it("G21: waits up to a fifth shorter or longer where its interval is jittered, so that many nodes do not ask at once", async () => {
    for (const [random, second] of [
      [0, 8_000],
      [1, 12_000],
    ] as const) {
      clock = new FakeClock(() => random);
      tasks = new Tasks({ clock });
      const { began, run } = work();
      tasks.update("a", { run, intervalMs: 10_000, isJittered: true });
      await clock.advance(15_000);
      expect(began.map(Math.round)).toEqual([0, second]);
    }
  });

  it("runs once until it succeeds when it has no interval, and again when it is asked to", async () => {
    const { began, run } = work((number) => number <= 2);
    tasks.update("a", { run });
    await clock.advance(600_000);
    expect(began).toEqual([0, 1_000, 3_000]);
    expect(tasks.trigger("a")).toBe(true);
    expect(tasks.trigger("unknown")).toBe(false);
    await settled();
    expect(began).toHaveLength(4);
  });

  it("waits twice as long after each failure in a row, at most a minute", async () => {
    const { began, run } = work(() => true);
    tasks.update("a", { run, errorBaseMs: 2_000, intervalMs: 1_000 });
    await clock.advance(250_000);
    expect(began.slice(0, 8)).toEqual([0, 2_000, 6_000, 14_000, 30_000, 62_000, 122_000, 182_000]);
    expect(statusOf("a")).toMatchObject({
      "success-count": 0,
      "failure-count": began.length,
      "consecutive-failure-count": began.length,
      "last-failure-msg": `failure ${began.length}`,
    });
  });

  it("varies the pause after a failure by a fifth to either side", async () => {
    const least = new FakeClock(() => 0);
    const most = new FakeClock(() => 0.999999);
    for (const own of [least, most]) new Tasks({ clock: own }).update("a", { run: () => Promise.reject(new Error("no")) });
    await settled();
    // The first pause of each is the deadline of the run.
    expect(least.pauses[1]).toBeCloseTo(800, 0);
    expect(most.pauses[1]).toBeCloseTo(1_200, 0);
  });

  it("forgets failures in a row and their message with a success, not their number", async () => {
    const { run } = work((number) => number === 2 || number === 3);
    tasks.update("a", { run, intervalMs: 1_000 });
    await clock.advance(1_000);
    expect(statusOf("a")).toMatchObject({ "consecutive-failure-count": 1, "last-failure-msg": "failure 2" });
    await clock.advance(3_000);
    expect(statusOf("a")).toMatchObject({ "success-count": 2, "failure-count": 2, "consecutive-failure-count": 0 });
    expect(statusOf("a")?.["last-failure-msg"]).toBeUndefined();
  });

  it("lets a run end before an update's work runs, once however many updates came, with its failures forgotten", async () => {
    const first = Promise.withResolvers<void>();
    let runsOfFirst = 0;
    tasks.update("a", {
      run: async () => {
        runsOfFirst++;
        await first.promise;
        throw new Error("of the old work");
      },
    });
    await settled();
    const second = work();
    for (let time = 0; time < 5; time++) {
      tasks.update("a", { run: second.run });
    }
    await settled();
    expect(second.began).toEqual([]);
    first.resolve();
    await settled();
    expect(second.began).toEqual([0]);
    expect(runsOfFirst).toBe(1);
    tasks.update("a", { run: second.run });
    await settled();
    expect(statusOf("a")).toMatchObject({ "failure-count": 0, "consecutive-failure-count": 0 });
  });

  it("is removed while it runs: the run is aborted, and waited for", async () => {
    const events: string[] = [];
    tasks.update("a", {
      run: async (signal) => {
        events.push("run");
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        events.push("run aborted");
      },
    });
    await settled();
    await tasks.remove("a");
    expect(events).toEqual(["run", "run aborted"]);
    expect(tasks.statuses()).toEqual([]);
    await clock.advance(600_000);
    expect(events).toHaveLength(2);
  });

  it("is removed within its limit although its run never ends", async () => {
    let wasTold = false;
    tasks.update("a", {
      run: (signal) => {
        signal.addEventListener("abort", () => {
          wasTold = true;
        });
        return new Promise(() => {});
      },
    });
    await settled();
    const removed = tasks.remove("a");
    await clock.advance(10_000);
    await removed;
    expect(wasTold).toBe(true);
  });

  it("counts a run that does not end within its deadline as failed, and begins no second one beside it", async () => {
    let running = 0;
    let most = 0;
    const run = async (signal: AbortSignal) => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      running--;
    };
    tasks.update("a", { run, deadlineMs: 5_000, intervalMs: 1_000 });
    await clock.advance(5_000);
    expect(statusOf("a")).toMatchObject({ "failure-count": 1, "last-failure-msg": "no end after 5 s" });
    await clock.advance(60_000);
    expect(most).toBe(1);
  });

  it("says that a run has failed which does not heed its deadline, while it goes on", async () => {
    tasks.update("a", { run: () => new Promise(() => {}), deadlineMs: 5_000 });
    await clock.advance(5_000);
    expect(statusOf("a")).toMatchObject({ "failure-count": 1, "last-failure-msg": "no end after 5 s" });
    expect(runs).toEqual([{ name: "a", outcome: "failure", seconds: 5, quiet: false, failures: 1, message: "no end after 5 s" }]);
  });

  it("N18: is news when it begins to fail, still fails an hour later, and works again", async () => {
    let isAway = true;
    const run = () => (isAway ? Promise.reject(new Error(`away ${runs.length}`)) : Promise.resolve());
    tasks.update("a", { run, intervalMs: 60_000 });
    for (let minute = 0; minute < 60; minute++) await clock.advance(60_000);
    isAway = false;
    for (let minute = 0; minute < 3; minute++) await clock.advance(60_000);
    expect(runs.length).toBeGreaterThan(60);
    const failures = runs.filter(({ outcome }) => outcome === "failure").length;
    expect(runs.map(newsOf).filter((news) => news !== undefined)).toEqual([
      "a: away 0",
      "a: away 59 (60 failures in a row)",
      `a: it works again, after ${failures} failures`,
    ]);
  });

  it("runs once more when it was asked to during a run, and no more often", async () => {
    const gate = Promise.withResolvers<void>();
    let count = 0;
    tasks.update("a", {
      run: async () => {
        if (++count === 1) await gate.promise;
      },
      intervalMs: 10_000,
    });
    await settled();
    for (let time = 0; time < 30; time++) tasks.trigger("a");
    gate.resolve();
    await settled();
    expect(count).toBe(2);
  });

  it("has its interval capped for the whole process", async () => {
    const capped = new Tasks({ clock, maxIntervalMs: 5_000 });
    const { began, run } = work();
    capped.update("a", { run, intervalMs: 60_000 });
    await clock.advance(11_000);
    expect(began).toEqual([0, 5_000, 10_000]);
    await capped[Symbol.asyncDispose]();
  });

  it("is listed by name with an identity that stays", async () => {
    tasks.update("b", { run: async () => {} });
    tasks.update("a", { run: async () => {}, intervalMs: 5, errorBaseMs: 7 });
    const before = tasks.statuses();
    tasks.update("a", { run: async () => {}, intervalMs: 5 });
    expect(before.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(before[0]?.configuration).toEqual({ interval: 5, "error-retry-base": 7, "error-retry": true });
    expect(tasks.statuses().map(({ uuid }) => uuid)).toEqual(before.map(({ uuid }) => uuid));
    await tasks[Symbol.asyncDispose]();
  });
});
