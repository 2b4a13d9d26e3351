/** Why a pool may give an address to some pods only, or to none: what an admin looks for behind `pool-none` and `pool-unselected`. */
import { allows } from "../../../ipam-plugin/allocator/pools.ts";
import type { IPPool } from "../../../lib/datastore/resources.ts";

/** In words, the most severe first; empty for a pool that serves every pod of every node. */
export function limitsOf(pool: IPPool): readonly string[] {
  const isFor = (selector: string) => selector !== "" && selector.trim() !== "all()";
  return [
    ...(pool.disabled ? ["disabled"] : []),
    ...(pool.deleting ? ["being deleted"] : []),
    ...(pool.allocatable === false ? ["not allocatable"] : []),
    ...(allows(pool, "Workload") ? [] : [`only for ${pool.allowedUses.join(", ")}`]),
    ...(pool.assignmentMode === "Automatic" ? [] : ["only for who names it"]),
    ...(isFor(pool.nodeSelector) ? [`nodes ${pool.nodeSelector}`] : []),
    ...(isFor(pool.namespaceSelector) ? [`namespaces ${pool.namespaceSelector}`] : []),
  ];
}
