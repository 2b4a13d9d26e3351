/**
 * The allocator against a plain model, in interleavings chosen by seeds: at every datastore call any other node may go first.
 *
 * TORTIE_MODEL_RUNS sets how many interleavings are tried (the other suites scale with it), TORTIE_MODEL_SEED plays one seed again.
 */
import { crashAt, randomFaults, recover, reordered, runWorld } from "../support/allocator-model/run.ts";
import type { WorldOptions } from "../support/allocator-model/world.ts";

const RUNS = Number(process.env.TORTIE_MODEL_RUNS ?? 100_000);
const ONLY_SEED = process.env.TORTIE_MODEL_SEED;
const TEN_MINUTES = 600_000;

describe("the allocator, interleaved at every datastore call", () => {
  it(
    "grants every address once, loses none, and keeps blocks, handles and affinities in agreement after every step",
    async () => {
      for (const seed of seeds(RUNS)) await runWorld(seed, sizeOf(seed), reordered());
    },
    TEN_MINUTES,
  );

  it(
    "leaves nothing behind, once its attachments are deleted, when a node dies at any one of its calls",
    async () => {
      for (const seed of seeds(RUNS / 1000)) {
        const { steps } = await runWorld(seed, sizeOf(seed));
        for (let call = 0; call < steps; call++) {
          for (const fate of ["crash", "crash-after"] as const) {
            await recover(await runWorld(seed, { ...sizeOf(seed), hasFaults: true }, crashAt(call, fate)), seed);
          }
        }
      }
    },
    TEN_MINUTES,
  );

  it(
    "grants nothing twice and leaves nothing behind when calls fail, conflict, lose their answer or overtake each other",
    async () => {
      for (const seed of seeds(RUNS / 10)) {
        await recover(await runWorld(seed, { ...sizeOf(seed), hasFaults: true }, randomFaults()), seed);
      }
    },
    TEN_MINUTES,
  );
});

describe("the allocator of agents, which do everything of their nodes at once and write together (A§11.7)", () => {
  it(
    "A-I08: grants every address once, loses none, and keeps blocks, handles and affinities in agreement after every step",
    async () => {
      for (const seed of seeds(RUNS / 50)) await runWorld(seed, withAgents(seed), reordered());
    },
    TEN_MINUTES,
  );

  it(
    "leaves nothing behind, once its attachments are deleted, when an agent dies at any one of its calls",
    async () => {
      for (const seed of seeds(RUNS / 10_000)) {
        const { steps } = await runWorld(seed, withAgents(seed));
        for (let call = 0; call < steps; call++) {
          for (const fate of ["crash", "crash-after"] as const) {
            await recover(await runWorld(seed, { ...withAgents(seed), hasFaults: true }, crashAt(call, fate)), seed);
          }
        }
      }
    },
    TEN_MINUTES,
  );

  it(
    "A-I07: grants nothing twice and leaves nothing behind when calls fail, conflict, lose their answer or overtake each other",
    async () => {
      for (const seed of seeds(RUNS / 100)) {
        await recover(await runWorld(seed, { ...withAgents(seed), hasFaults: true }, randomFaults()), seed);
      }
    },
    TEN_MINUTES,
  );
});

function withAgents(seed: number): WorldOptions {
  return { nodes: 2, operationsPerNode: 3 + (seed % 4), agents: 1 + (seed % 2) };
}

function sizeOf(seed: number): WorldOptions {
  return { nodes: 2 + (seed % 2), operationsPerNode: 2 + (seed % 3) };
}

function* seeds(count: number): Generator<number> {
  if (ONLY_SEED !== undefined) yield Number(ONLY_SEED);
  else for (let seed = 0; seed < count; seed++) yield seed;
}
