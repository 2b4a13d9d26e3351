/**
 * The allocator against a plain model, in interleavings chosen by seeds: at every datastore call any other node may go first.
 * TORTIE_MODEL_RUNS sets how many are tried, TORTIE_MODEL_SEED plays one of them again.
 */
import { recover, runWorld } from "../support/allocator-model/run.ts";

const RUNS = Number(process.env.TORTIE_MODEL_RUNS ?? 100_000);
const ONLY_SEED = process.env.TORTIE_MODEL_SEED;

describe("the allocator, interleaved at every datastore call", () => {
  it("grants every address once, loses none, and keeps blocks, handles and affinities in agreement after every step", async () => {
    for (const seed of seeds(RUNS)) await runWorld(seed, { nodes: 2 + (seed % 2), operationsPerNode: 2 + (seed % 3) });
  }, 600_000);
});

function* seeds(count: number): Generator<number> {
  if (ONLY_SEED !== undefined) yield Number(ONLY_SEED);
  else for (let seed = 0; seed < count; seed++) yield seed;
}
void recover;
