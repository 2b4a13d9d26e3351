/** A block and its owner's affinity: the block says whose it is, and exactly that owner gets to keep or write an affinity. */
import { isOwnedBy } from "../../ipam-plugin/allocator/block.ts";
import { claimBlock, NOT_OURS } from "../../ipam-plugin/allocator/claim.ts";
import { ofBlock } from "../rules/affinity-rules.ts";
import { GONE, MENDED, type Repair, type RepairOutcome } from "./repair-outcome.ts";

/** Writes the affinity that the block's owner lacks, in the order of a claim, so that a release at the same time is noticed. */
export async function giveToOwner({ operation }: Repair, cidr: string): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  const owner = (await blocks.get(cidr))?.value.affinity;
  if (owner === undefined || (await affinities.get({ owner, cidr })) !== undefined) return GONE;
  return (await claimBlock(operation, { owner, cidr, expectBlock: true })) === NOT_OURS ? GONE : MENDED;
}

/** Removes the confirmed affinities of all who do not own the block. */
export async function leaveToOwner({ operation, problem }: Repair, cidr: string): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  const all = (await affinities.listAll()).filter(({ value }) => value.cidr === cidr);
  const block = await blocks.get(cidr);
  if (block === undefined || !ofBlock(block, all).some(({ id }) => id === problem.id)) return GONE;
  for (const affinity of all) {
    if (affinity.value.state !== "confirmed" || isOwnedBy(block.value, affinity.value.owner)) continue;
    await affinities.delete(affinity.value, affinity.revision);
  }
  return MENDED;
}
