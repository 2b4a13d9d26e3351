/** One run of a world under a seed, and what to do after clients have died in it. */

import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { giveUpBlocks } from "../blocks.ts";
import { sampleRequest } from "../samples.ts";
import { Scheduler, type SchedulerOptions } from "../scheduler.ts";
import { World, type WorldOptions } from "./world.ts";

/** Words with which an operation may refuse in a healthy store. */
const EXPECTED_WORDS = new Set(["block-limit", "address-taken", "affinity-strict", "block-not-empty", "block-claimed", "handle-limit"]);

export type FateOf = NonNullable<SchedulerOptions["fateOf"]>;

export interface Run {
  readonly world: World;
  readonly scheduler: Scheduler;
  /** Datastore calls and sleeps. */
  readonly steps: number;
}

/** What a test throws: enough to play the run again. */
class FailedRun extends Error {
  constructor(what: string, seed: number, scheduler: Scheduler, cause: unknown) {
    const trace = scheduler.trace.slice(-120).join("\n  ");
    super(`${what}, seed ${seed}: ${cause instanceof Error ? cause.message : String(cause)}\n  ${trace}`, { cause });
    this.name = "FailedRun";
  }
}

/** Runs to the end with every invariant watched; refusals of a healthy store must be the expected ones. */
export async function runWorld(seed: number, options: WorldOptions, fateOf?: FateOf): Promise<Run> {
  const hasFaults = options.hasFaults ?? false;
  const what = hasFaults ? "run with faults" : "interleaving";
  let steps = 0;
  let refusal: unknown;
  const scheduler: Scheduler = new Scheduler({
    seed,
    maxSteps: 20_000,
    afterStep: (step) => {
      steps = step;
      world.model.observe();
    },
    ...(fateOf === undefined ? {} : { fateOf }),
  });
  const world: World = new World(seed, scheduler, options);
  try {
    await world.seed();
    const endings = await scheduler.run(
      world.tasks(scheduler, (error) => {
        if (!isExpected(error, hasFaults)) refusal ??= error;
      }),
    );
    if (refusal !== undefined) throw refusal;
    if (!hasFaults) {
      for (const ending of endings) if (ending.state !== "done") throw new Error(`a task ${ending.state}`);
      world.model.checkAtRest();
      world.checkHoldings();
    }
    return { world, scheduler, steps };
  } catch (error) {
    throw new FailedRun(what, seed, scheduler, error);
  }
}

/**
 * What follows in real life when plugins have died: the runtime deletes every attachment, the node works on. Nothing may be left
 * but cooling addresses; blocks and affinities must agree again.
 */
export async function recover({ world, scheduler: before }: Run, seed: number): Promise<void> {
  const scheduler = new Scheduler({ seed: seed + 1, afterStep: world.model.observe });
  // Longer than any cooldown: nothing that died can hold addresses back for ever.
  scheduler.advance(before.clock.nowMs() - scheduler.clock.nowMs() + 7_200_000);
  world.clock = scheduler.clock;
  try {
    const [ending] = await scheduler.run([
      async () => {
        const allocator = world.allocator("recovery", scheduler);
        for (const handle of world.handles) await allocator.releaseByHandle(handle);
        // The last answer comes before the scheduler's look at the store.
        world.model.observe();
        if (world.model.held.size > 0)
          throw new Error(`leaked: ${[...world.model.held].map(([address, { handle }]) => `${address} of ${handle}`)}`);
        const [handle] = world.model.handles();
        if (handle !== undefined) throw new Error(`handle ${handle.id} is left over`);
        // What was released just now has cooled down.
        scheduler.advance(3_600_000);
        // Every node can go on, and gives up everything afterwards.
        for (const { owner } of world.nodes) {
          const name = `net.after-${owner.name}`;
          const result = await allocator.autoAssign(sampleRequest(owner.name, name, { count6: 1, owner }));
          const error = result.ipv4?.error ?? result.ipv6?.error;
          if (error !== undefined) throw error;
          await allocator.releaseByHandle(name);
        }
        world.model.observe();
        for (const { owner } of world.nodes) await giveUpBlocks(allocator, owner, { mustBeEmpty: false });
      },
    ]);
    if (ending?.state === "failed") throw ending.error;
    world.model.checkAfterCrash();
  } catch (error) {
    throw new FailedRun("recovery", seed, scheduler, error);
  }
}

function isExpected(error: unknown, hasFaults: boolean): boolean {
  if (error instanceof DatastoreError) return hasFaults && error.failure === "unavailable";
  return error instanceof TortieError && (EXPECTED_WORDS.has(error.word) || (hasFaults && error.word === "datastore-contention"));
}

/** Lets the client of the `index`-th call die there, before or after the call is carried out; dead clients stay dead. */
export function crashAt(index: number, fate: "crash" | "crash-after"): FateOf {
  const dead = new Set<string>();
  let calls = 0;
  return ({ client }) => {
    if (dead.has(client)) return "crash";
    if (calls++ !== index) return "proceed";
    dead.add(client);
    return fate;
  };
}

/** Nothing fails, but the reads of one operation, and its writes, may overtake each other: some are answered late, some reads are sent again. */
export function reordered(): FateOf {
  return ({ phase }, _step, random) => {
    if (phase === "answer") return "proceed";
    const chance = random();
    if (chance < 0.1) return "late";
    return chance < 0.15 ? "repeated" : "proceed";
  };
}

/** Every call has a small chance to fail, to conflict, to lose its answer or to be slow, and its client to die. */
export function randomFaults(): FateOf {
  const dead = new Set<string>();
  return ({ client, phase }, _step, random) => {
    if (dead.has(client)) return "crash";
    const chance = random();
    if (phase === "answer" || chance > 0.08) return "proceed";
    if (chance < 0.005) {
      dead.add(client);
      return chance < 0.0025 ? "crash" : "crash-after";
    }
    const fates = ["unavailable", "answer-lost", "overtaken", "conflict", "late", "late", "repeated"] as const;
    return fates[Math.floor(random() * fates.length)] ?? "proceed";
  };
}
