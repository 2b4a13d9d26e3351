/** The allocator against a plain model, in interleavings chosen by seeds: at every datastore call any other node may go first. */
import { reordered, runWorld } from "../../support/allocator-model/run.ts";
import { MODEL_LIMIT, RUNS, seeds, withExecutables } from "../../support/allocator-model/seeds.ts";

jest.setTimeout(MODEL_LIMIT);

describe("the allocator, interleaved at every datastore call", () => {
  it("grants every address once, loses none, and keeps blocks, handles and affinities in agreement after every step", async () => {
    for (const seed of seeds(RUNS)) await runWorld(seed, withExecutables(seed), reordered());
  });
});
