/** The model of interleaved.test.ts with agents, of which each has many operations under way. */
import { crashAt, randomFaults, recover, reordered, runWorld } from "../../support/allocator-model/run.ts";
import { MODEL_LIMIT, RUNS, seeds, withAgents } from "../../support/allocator-model/seeds.ts";

jest.setTimeout(MODEL_LIMIT);

describe("the allocator of agents, which do everything of their nodes at once and write together (A§11.7)", () => {
  it("A-I08: grants every address once, loses none, and keeps blocks, handles and affinities in agreement after every step", async () => {
    for (const seed of seeds(RUNS / 50)) await runWorld(seed, withAgents(seed), reordered());
  });

  it("leaves nothing behind, once its attachments are deleted, when an agent dies at any one of its calls", async () => {
    for (const seed of seeds(RUNS / 10_000)) {
      const { steps } = await runWorld(seed, withAgents(seed));
      for (let call = 0; call < steps; call++) {
        for (const fate of ["crash", "crash-after"] as const) {
          await recover(await runWorld(seed, { ...withAgents(seed), hasFaults: true }, crashAt(call, fate)), seed);
        }
      }
    }
  });

  it("A-I07: grants nothing twice and leaves nothing behind when calls fail, conflict, lose their answer or overtake each other", async () => {
    for (const seed of seeds(RUNS / 100)) {
      await recover(await runWorld(seed, { ...withAgents(seed), hasFaults: true }, randomFaults()), seed);
    }
  });
});
