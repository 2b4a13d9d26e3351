import { describeDatastore } from "../../support/datastore-conformance.ts";
import { type Fate, LaggingMemory, MemoryStore } from "../../support/memory-datastore.ts";
import { sampleAffinity } from "../../support/samples.ts";
import { Scheduler } from "../../support/scheduler.ts";

describeDatastore(
  "the memory store",
  async () => {
    const store = new MemoryStore();
    return { datastore: store.connect("one"), other: store.connect("two"), async [Symbol.asyncDispose]() {} };
  },
  { hasOwnEndpoints: true },
);

describe("the memory store with a gate", () => {
  const handle = { id: "net.c1", blocks: { "10.40.0.0/26": 1 } };

  async function underFate(fate: Fate): Promise<{ outcome: Promise<unknown>; stored: () => Promise<unknown> }> {
    const store = new MemoryStore();
    const made = await store.connect().handles.create("net.c1", handle);
    const gated = store.connect("gated", ({ phase }) => (phase === "answer" ? "proceed" : fate));
    const outcome = gated.handles.update("net.c1", { ...handle, blocks: {} }, made.revision);
    outcome.catch(() => {});
    return { outcome, stored: async () => (await store.connect().handles.get("net.c1"))?.value.blocks };
  }

  it.each([
    ["unavailable", "unavailable", { "10.40.0.0/26": 1 }],
    ["conflict", "conflict", { "10.40.0.0/26": 1 }],
    ["answer-lost", "unavailable", {}],
  ] as const)("fails a call with the fate %s as a server would", async (fate, failure, left) => {
    const { outcome, stored } = await underFate(fate);
    await expect(outcome).rejects.toMatchObject({ failure });
    expect(await stored()).toEqual(left);
  });

  it("never answers a client that it kills, before or after the call", async () => {
    for (const [fate, left] of [
      ["crash", { "10.40.0.0/26": 1 }],
      ["crash-after", {}],
    ] as const) {
      const { outcome, stored } = await underFate(fate);
      const waited = await Promise.race([outcome.then(() => "answered"), new Promise((resolve) => setTimeout(resolve, 5, "silent"))]);
      expect(waited).toBe("silent");
      expect(await stored()).toEqual(left);
    }
  });

  it("delivers a late answer as the store was when the call was carried out", async () => {
    const store = new MemoryStore();
    let deliver: (fate: Fate) => void = () => {};
    const slow = store.connect("slow", ({ phase }) => (phase === "request" ? "late" : new Promise<Fate>((resolve) => (deliver = resolve))));
    const answer = slow.handles.get("net.c1");
    await Promise.resolve();
    await store.connect().handles.create("net.c1", handle);
    await new Promise((resolve) => setImmediate(resolve));
    deliver("proceed");
    expect(await answer).toBeUndefined();
  });
});

describe("a memory that lags behind", () => {
  it("answers only the lists that may be old, with what it has heard of, in the order of the writes", async () => {
    const store = new MemoryStore();
    const memory = new LaggingMemory(store);
    const { affinities, traits } = store.connect("client", undefined, memory);
    expect([traits.listsFromMemory, store.connect().traits.listsFromMemory]).toEqual([true, false]);
    const [one, two] = [sampleAffinity("a", "10.0.0.0/26"), sampleAffinity("a", "10.0.0.64/26")];
    const { revision } = await affinities.create(one, one);
    await affinities.create(two, two);
    await affinities.delete(one, revision);
    const lists = async () => {
      const [old, now] = [await affinities.listByOwner(one.owner, 4, { mayBeOld: true }), await affinities.listByOwner(one.owner, 4)];
      return [old, now].map((list) => list.map(({ value }) => value.cidr));
    };

    expect(await lists()).toEqual([[], [two.cidr]]);
    memory.hear("affinity", 2);
    expect(memory.lag("affinity")).toBe(1);
    expect(await lists()).toEqual([[one.cidr, two.cidr], [two.cidr]]);
    memory.hear("affinity");
    expect(await lists()).toEqual([[two.cidr], [two.cidr]]);
  });
});

describe("the scheduler", () => {
  async function run(seed: number): Promise<{ trace: readonly string[]; winners: number }> {
    const store = new MemoryStore();
    const scheduler = new Scheduler({ seed });
    const endings = await scheduler.run(
      ["a", "b", "c"].map((client) => async () => {
        const { handles } = store.connect(client, scheduler.gate);
        if ((await handles.get("net.c1")) !== undefined) return false;
        await scheduler.sleep(5);
        await handles.create("net.c1", { id: "net.c1", blocks: {} });
        return true;
      }),
    );
    return { trace: scheduler.trace, winners: endings.filter((ending) => ending.state === "done" && ending.value).length };
  }

  it("gives the same run for the same seed, and others for other seeds", async () => {
    const runs = await Promise.all(Array.from({ length: 20 }, (_, seed) => run(seed)));
    expect((await run(7)).trace).toEqual(runs[7]?.trace);
    expect(new Set(runs.map(({ trace }) => trace.join("\n"))).size).toBeGreaterThan(5);
    expect(runs.map(({ winners }) => winners)).toEqual(runs.map(() => 1));
  });

  it("lets virtual time pass instead of waiting", async () => {
    const scheduler = new Scheduler({ seed: 1 });
    const before = scheduler.clock.nowMs();
    const started = performance.now();
    await scheduler.run([() => scheduler.sleep(90_000)]);
    expect(scheduler.clock.nowMs() - before).toBe(90_000);
    expect(performance.now() - started).toBeLessThan(90_000);
  });

  it("gives up a run that does not end", async () => {
    const scheduler = new Scheduler({ seed: 1, maxSteps: 50 });
    const endless = async (): Promise<void> => {
      for (;;) await scheduler.sleep(1);
    };
    await expect(scheduler.run([endless])).rejects.toThrow("no end after 51 steps");
  });

  it("reports a task whose client was killed as crashed, and goes on with the others", async () => {
    const store = new MemoryStore();
    const scheduler = new Scheduler({ seed: 3, fateOf: ({ client }) => (client === "a" ? "crash" : "proceed") });
    const endings = await scheduler.run(
      ["a", "b"].map((client) => async () => store.connect(client, scheduler.gate).handles.get("net.c1")),
    );
    expect(endings.map(({ state }) => state)).toEqual(["crashed", "done"]);
  });
});
