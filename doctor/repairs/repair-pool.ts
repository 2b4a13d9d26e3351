/** A block that should not be there: removed when nothing is in it, by the owner's own way of giving it up. */
import { isEmpty } from "../../ipam-plugin/allocator/block.ts";
import { releaseAffinity } from "../../ipam-plugin/allocator/release-affinity.ts";
import { poolProblems } from "../rules/pool-rules.ts";
import { placedBlocks, placedPools } from "../snapshot.ts";
import { GONE, MENDED, type Repair, type RepairOutcome } from "./repair-outcome.ts";

export async function removeBlock({ operation, problem }: Repair, cidr: string): Promise<RepairOutcome> {
  const { blocks } = operation.datastore;
  const all = await operation.blocks();
  const now = poolProblems(placedBlocks(all), placedPools(await operation.pools()));
  const block = all.find(({ value }) => value.cidr === cidr);
  if (block === undefined || !isEmpty(block.value) || !now.some(({ id, isRepairable }) => id === problem.id && isRepairable)) return GONE;

  const { affinity: owner, sequenceNumber } = block.value;
  const release = owner && { owner, cidr, mustBeEmpty: true, sequenceNumber };
  const isReleased = release !== undefined && (await releaseAffinity(operation, release));
  if (!isReleased) await blocks.delete(cidr, block.revision);
  return MENDED;
}
