/** A whole check, and a whole repair: looking, looking again so that operations under way are left alone, mending, looking once more. */
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { Problem } from "./problem.ts";
import { type RepairServices, repair } from "./repair.ts";
import type { RepairOutcome } from "./repairs/repair-outcome.ts";
import { findInconsistencies, standing } from "./rules/find.ts";
import { type Judgement, readSnapshot } from "./snapshot.ts";

export interface CheckOptions extends Omit<Judgement, "nowMs"> {
  readonly nowMs: () => number;
  /** Lets the operations go by that were under way during the first look. */
  readonly pause: () => Promise<void>;
}

/** What stands. A look that finds nothing wrong needs no second one. */
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
  /** Each problem with what became of it, in the order of the work. */
  readonly repaired: readonly Repaired[];
  /** What stands afterwards. */
  readonly left: readonly Problem[];
}

/** Some problems come to light when others are mended: an address without attribute, then without handle. */
const MOST_ROUNDS = 5;

/**
 * @param found what stood a moment ago
 * @param exclusively runs the writes of one round; where the node's lock can be had, under it
 */
export async function repairAll(
  found: readonly Problem[],
  services: RepairServices,
  options: CheckOptions,
  exclusively: (work: () => Promise<void>) => Promise<void>,
): Promise<RepairReport> {
  const repaired: Repaired[] = [];
  const refusals = new Set<string>();
  let left = found;
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const todo = left.filter(({ id, isRepairable }) => isRepairable && !refusals.has(id));
    if (todo.length === 0) break;
    await exclusively(async () => {
      for (const problem of todo) {
        const outcome = await repair(problem, services);
        if (outcome.outcome === "refused") refusals.add(problem.id);
        repaired.push({ problem, outcome });
      }
    });
    left = await check(services.datastore, options);
  }
  return { repaired, left };
}

async function look(datastore: Datastore, options: CheckOptions): Promise<readonly Problem[]> {
  const snapshot = await readSnapshot(datastore);
  return findInconsistencies(snapshot, { ...options, nowMs: options.nowMs() });
}
