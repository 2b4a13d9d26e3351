/** The interleavings of interleaved.test.ts with nodes that die and calls that fail. */
import { crashAt, randomFaults, recover, runWorld } from "../../support/allocator-model/run.ts";
import { MODEL_LIMIT, RUNS, seeds, withExecutables } from "../../support/allocator-model/seeds.ts";

jest.setTimeout(MODEL_LIMIT);

describe("the allocator, interleaved at every datastore call, with faults", () => {
  it("leaves nothing behind, once its attachments are deleted, when a node dies at any one of its calls", async () => {
    for (const seed of seeds(RUNS / 1000)) {
      const { steps } = await runWorld(seed, withExecutables(seed));
      for (let call = 0; call < steps; call++) {
        for (const fate of ["crash", "crash-after"] as const) {
          await recover(await runWorld(seed, { ...withExecutables(seed), hasFaults: true }, crashAt(call, fate)), seed);
        }
      }
    }
  });

  it("grants nothing twice and leaves nothing behind when calls fail, conflict, lose their answer or overtake each other", async () => {
    for (const seed of seeds(RUNS / 10)) {
      await recover(await runWorld(seed, { ...withExecutables(seed), hasFaults: true }, randomFaults()), seed);
    }
  });
});
