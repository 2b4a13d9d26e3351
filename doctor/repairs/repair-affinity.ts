/** One affinity that is wrong, unfinished or unlabelled. */

import { claimBlock, NOT_OURS, putState } from "../../ipam-plugin/allocator/claim-block.ts";
import type { AffinityKey } from "../../lib/datastore/datastore.ts";
import { ofBlock, unlabelled, withoutBlock } from "../rules/affinity-rules.ts";
import { GONE, MENDED, type Repair, type RepairOutcome } from "./repair-outcome.ts";

export async function repairAffinity({ operation, problem }: Repair, key: AffinityKey): Promise<RepairOutcome> {
  const { affinities, blocks } = operation.datastore;
  // The affinity first: a claim writes it, then the block, so that a block which is missing afterwards was never made for it.
  const affinity = await affinities.get(key);
  if (affinity === undefined) return GONE;
  const block = await blocks.get(key.cidr);
  const now = block === undefined ? [withoutBlock(affinity)] : ofBlock(block, [affinity]);
  if (!affinity.value.labelled) now.push(unlabelled(affinity));
  if (!now.some(({ id }) => id === problem.id)) return GONE;

  switch (problem.kind) {
    case "affinity-unlabelled":
      await putState(operation, affinity, affinity.value.state);
      return MENDED;
    case "affinity-unfinished":
      if (block === undefined) break;
      return (await claimBlock(operation, { ...key, affinity, expectBlock: true })) === NOT_OURS ? GONE : MENDED;
  }
  await affinities.delete(key, affinity.revision);
  return MENDED;
}
