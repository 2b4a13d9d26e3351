/**
 * Which worlds the suites of the model try. TORTIE_MODEL_RUNS sets how many interleavings (the other tests scale with it),
 * TORTIE_MODEL_SEED plays one seed again.
 */
import type { WorldOptions } from "./world.ts";

export const RUNS = Number(process.env.TORTIE_MODEL_RUNS ?? 100_000);
const ONLY_SEED = process.env.TORTIE_MODEL_SEED;
/** Nothing is judged by time; this only ends what hangs, in milliseconds. */
export const MODEL_LIMIT = 1_800_000;

export function* seeds(count: number): Generator<number> {
  if (ONLY_SEED !== undefined) yield Number(ONLY_SEED);
  else for (let seed = 0; seed < count; seed++) yield seed;
}

/** Nodes whose operations go one after the other, as those of executables do. */
export function withExecutables(seed: number): WorldOptions {
  return { nodes: 2 + (seed % 2), operationsPerNode: 2 + (seed % 3) };
}

/** Nodes whose agents do everything at once. */
export function withAgents(seed: number): WorldOptions {
  return { nodes: 2, operationsPerNode: 3 + (seed % 4), agents: 1 + (seed % 2) };
}
