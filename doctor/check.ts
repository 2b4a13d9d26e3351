/**
 * Makes a whole check, and a whole repair: looks, looks again so that operations under way are left alone, mends, looks once more. A
 * repair reads the objects again, applies the rule that found the problem again, and writes only if the rule still finds it, at the revisions
 * that the rule saw. After a conflict with another writer it starts over.
 */
import type { Clock } from "../ipam-plugin/allocator/allocator.ts";
import { normalise } from "../ipam-plugin/allocator/block.ts";
import { BlockWriter } from "../ipam-plugin/allocator/block-write.ts";
import { Operation } from "../ipam-plugin/allocator/operation.ts";
import { AGAIN } from "../ipam-plugin/allocator/types.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../lib/datastore/errors.ts";
import { Lane } from "../lib/system/lane.ts";
import { NEVER } from "../lib/system/waiting.ts";
import { affinityProblems, giveToOwner, leaveToOwner, repairAffinity } from "./affinities.ts";
import { blockProblems, isOfOneBlock, mendBlock, poolProblems, removeBlock } from "./blocks.ts";
import { allocateToEndpoint, endpointProblems } from "./endpoints.ts";
import { handleProblems, isOnlyCounted, lowerCounts, repairHandle } from "./handles.ts";
import { type Problem, type Repair, type RepairOutcome, refused } from "./problem.ts";
import { type Judgement, placedBlocks, placedPools, readSnapshot, type Snapshot } from "./snapshot.ts";
import { releaseUnused, unusedProblems } from "./unused.ts";

export interface CheckOptions extends Omit<Judgement, "nowMs"> {
  readonly nowMs: () => number;
  /** Gives the operations that were under way during the first look time to finish. */
  readonly pause: () => Promise<void>;
}

/** Returns the problems that persist. A first look that finds nothing wrong needs no second one. */
export async function check(datastore: Datastore, options: CheckOptions): Promise<readonly Problem[]> {
  const first = await look(datastore, options);
  if (first.every(({ severity }) => severity === "note")) return first;
  await options.pause();
  return standing(first, await look(datastore, options));
}

export interface Repaired {
  readonly problem: Problem;
  readonly outcome: RepairOutcome;
}

export interface RepairReport {
  /** Each problem with its outcome, in the order in which they were repaired. */
  readonly repaired: readonly Repaired[];
  /** The problems that remain. */
  readonly left: readonly Problem[];
}

/** Allows for problems that only come to light when others are mended: an address without attribute, then without handle. */
const MOST_ROUNDS = 5;

/** Problems that are mended at once: those that end in a write of the same block share it. */
const AT_ONCE = 64;

/**
 * @param found what stood a moment ago
 * @param lock the node's lock, taken for one write or one repair
 */
export async function repairAll(
  found: readonly Problem[],
  services: Pick<RepairServices, "datastore" | "clock">,
  options: CheckOptions,
  lock: () => Promise<Disposable | undefined>,
): Promise<RepairReport> {
  const repaired: Repaired[] = [];
  const refusals = new Set<string>();
  let left = found;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const todo = left.filter(({ id, isRepairable }) => isRepairable && !refusals.has(id));
    if (todo.length === 0) break;
    const outcomes = await repairEach(todo, services, lock);
    for (const { problem, outcome } of outcomes) if (outcome.outcome === "refused") refusals.add(problem.id);
    repaired.push(...outcomes);
    left = await check(services.datastore, options);
  }
  return { repaired, left };
}

/**
 * Repairs each of the problems, as far as it can be mended.
 * @param lock the node's lock, taken for one write or one repair
 */
export function repairEach(
  problems: readonly Problem[],
  services: Pick<RepairServices, "datastore" | "clock">,
  lock: () => Promise<Disposable | undefined>,
): Promise<readonly Repaired[]> {
  const writer = new BlockWriter({ width: AT_ONCE, lock });
  const lane = new Lane({ running: AT_ONCE });
  const mend = async (problem: Problem): Promise<Repaired> => {
    if (sharesItsWrite(problem)) return { problem, outcome: await repair(problem, { ...services, writer }) };
    // The common writer takes the lock by itself, which this repair has already.
    using _held = await lock();
    return { problem, outcome: await repair(problem, services) };
  };
  return Promise.all(problems.map((problem) => lane.run(NEVER, () => mend(problem))));
}

async function look(datastore: Datastore, options: CheckOptions): Promise<readonly Problem[]> {
  const snapshot = await readSnapshot(datastore);
  return findInconsistencies(snapshot, { ...options, nowMs: options.nowMs() });
}

/** Finds every problem and note, those of one rule together, in the order of the objects. */
export function findInconsistencies(snapshot: Snapshot, judgement: Judgement): readonly Problem[] {
  const blocks = placedBlocks(snapshot.blocks);
  const pools = placedPools(snapshot.pools);
  const { cooldownSeconds } = snapshot;
  // A block counts as empty when its last address has cooled down, whether or not it was written since.
  const cooled =
    cooldownSeconds === undefined
      ? snapshot.blocks
      : snapshot.blocks.map(({ value, revision }) => ({ value: normalise(value, cooldownSeconds, judgement.nowMs), revision }));
  return [
    ...snapshot.blocks.flatMap((block) => blockProblems(block, judgement.nowMs)),
    ...poolProblems(placedBlocks(cooled), pools),
    ...affinityProblems(snapshot.blocks, snapshot.affinities),
    ...handleProblems(blocks, snapshot.handles),
    ...endpointProblems(blocks, pools, snapshot.endpoints),
    ...unusedProblems(blocks, snapshot.endpoints, judgement),
  ];
}

/**
 * Keeps what is in both findings, unmoved: an operation that was under way during the first (a handle is counted before its block is
 * written, I§5.2) has ended or has written again by the second.
 */
export function standing(first: readonly Problem[], second: readonly Problem[]): readonly Problem[] {
  const before = new Map(first.map((problem) => [problem.id, problem.evidence]));
  return second.filter(({ id, evidence }) => before.get(id) === evidence);
}

interface RepairServices {
  readonly datastore: Datastore;
  readonly clock: Clock;
  /** Default: each repair writes by itself. */
  readonly writer?: BlockWriter;
  readonly signal?: AbortSignal;
}

/** Tells whether the repair writes blocks by the common writer alone, which takes the lock by itself. */
function sharesItsWrite({ kind, subject }: Problem): boolean {
  return subject.type === "allocation" || isOnlyCounted(kind);
}

/**
 * Mends one problem, or says why not. Problems that build on one another need several rounds: find, repair, find again.
 *
 * @throws DatastoreError `unavailable`, `unauthorized`
 */
export async function repair(problem: Problem, services: RepairServices): Promise<RepairOutcome> {
  const { datastore, clock, writer, signal } = services;
  if (!problem.isRepairable) return refused("it must be decided by hand");
  const begin = () => new Operation({ datastore, clock, writer }, { signal });
  try {
    return await begin().retry(problem.object, async () => {
      try {
        const outcome = await attempt({ operation: begin(), problem, nowMs: clock.nowMs() });
        return outcome === AGAIN ? AGAIN : { result: outcome };
      } catch (error) {
        if (isDatastoreFailure(error, "conflict", "not-found", "already-exists")) return AGAIN;
        throw error;
      }
    });
  } catch (error) {
    // The refusals of the allocator's own steps, which this repair is made of.
    if (isRefusal(error)) return refused(error.message);
    throw error;
  }
}

async function attempt(work: Repair): Promise<RepairOutcome | typeof AGAIN> {
  const { kind, subject } = work.problem;
  switch (subject.type) {
    case "block":
      if (isOfOneBlock(kind)) return mendBlock(work, kind, subject.cidr);
      if (kind === "affinity-missing") return giveToOwner(work, subject.cidr);
      if (kind === "affinity-double") return leaveToOwner(work, subject.cidr);
      return removeBlock(work, subject.cidr);
    case "affinity":
      return repairAffinity(work, subject.key);
    case "handle":
      return isOnlyCounted(kind) ? lowerCounts(work, subject.id) : repairHandle(work, subject);
    case "allocation":
      return releaseUnused(work, subject);
    case "endpoint":
      return allocateToEndpoint(work, subject);
    case "address":
    case "place":
      return refused("it must be decided by hand");
  }
}
