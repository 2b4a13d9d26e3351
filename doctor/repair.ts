/**
 * Repairs one problem. It reads the objects again, applies the rule that found the problem again, and writes only if the
 * rule still finds it, at the revisions that the rule saw. After a conflict with another writer it starts over.
 */

import type { Clock } from "../ipam-plugin/allocator/allocator.ts";
import { AGAIN, Operation } from "../ipam-plugin/allocator/operation.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../lib/datastore/errors.ts";
import type { Problem } from "./problem.ts";
import { repairAffinity } from "./repairs/repair-affinity.ts";
import { giveToOwner, leaveToOwner, releaseUnused } from "./repairs/repair-allocation.ts";
import { isOfOneBlock, mendBlock, removeBlock } from "./repairs/repair-block.ts";
import { allocateToEndpoint } from "./repairs/repair-endpoint.ts";
import { repairHandle } from "./repairs/repair-handle.ts";
import { type Repair, type RepairOutcome, refused } from "./repairs/repair-outcome.ts";

export interface RepairServices {
  readonly datastore: Datastore;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
}

/**
 * Mends one problem, or says why not. Problems that build on one another need several rounds: find, repair, find again.
 *
 * @throws DatastoreError `unavailable`, `unauthorized`
 */
export async function repair(problem: Problem, services: RepairServices): Promise<RepairOutcome> {
  const { datastore, clock, signal } = services;
  if (!problem.isRepairable) return refused("it must be decided by hand");
  const begin = () => new Operation({ datastore, clock }, { signal });
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
      return repairHandle(work, subject);
    case "allocation":
      return releaseUnused(work, subject);
    case "endpoint":
      return allocateToEndpoint(work, subject);
    case "address":
    case "place":
      return refused("it must be decided by hand");
  }
}
