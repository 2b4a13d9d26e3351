/**
 * The next block of an owner, claimed before those that it has are full, so that no ADD waits for the claim (A§11.7).
 *
 * A block ahead of need is a convenience, so it is never taken from another node, not even an empty one. Anything unusual
 * among the owner's blocks is left to the next ADD, which looks at everything.
 */

import type { FamilyRequest } from "../../ipam-plugin/allocator/auto-assign-family.ts";
import { freeOrdinals, isOwnedBy, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { effectiveLimit, firstFreeBlock } from "../../ipam-plugin/allocator/choose-block.ts";
import { claimBlock, isReady, NOT_OURS } from "../../ipam-plugin/allocator/claim-block.ts";
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { choosePools, isInside, type UsablePool } from "../../ipam-plugin/allocator/pools.ts";
import { bitsOf } from "../../lib/addresses/address.ts";

/** Addresses that are left when the next block is claimed (A§11.7). */
const LOW_MARK = 16;

/** Of a block of fewer addresses: one part in so many, so that it is not low while it is half empty. */
const SMALL_BLOCK_PART = 4;

/**
 * Whether so few addresses are left in a block that was granted from, as far as this process knows. Asks the store for nothing that the
 * operation has read before.
 */
export async function isRunningLow(operation: Operation, request: FamilyRequest, cidr: string): Promise<boolean> {
  const pools = (await poolsOf(operation, request)).filter((pool) => isInside([pool], prefixOf(cidr)));
  return (await freeIn(operation, request, cidr)) < lowMarkOf(pools);
}

/** `room`: there is enough without another block. `none`: the owner may have no more, or no block is free. */
export type ClaimedAhead = "claimed" | "room" | "none";

/** @param operation one that has read nothing yet, and whose first reads may come from memory */
export async function claimAhead(operation: Operation, request: FamilyRequest): Promise<ClaimedAhead> {
  if (await hasRoom(operation, request)) return "room";
  // A pool that is gone or was made anew, or blocks beyond the limit, would do harm; an old reservation or configuration only costs a
  // block.
  operation.refresh("pools", "affinities");
  if (await hasRoom(operation, request)) return "room";
  const { owner, family, blockLimit, reserve } = request;
  const affinities = await operation.affinities(family);
  const configuration = await operation.configuration();
  if (!configuration.autoAllocateBlocks || affinities.length >= effectiveLimit(configuration, blockLimit)) return "none";
  await operation.requireNode();
  const pools = await poolsOf(operation, request);
  const excluded = new Set(affinities.map(({ value }) => value.cidr));
  const choice = await firstFreeBlock(operation, { owner, pools, excluded });
  if (choice === undefined) return "none";
  const block = await claimBlock(operation, { owner, cidr: choice.cidr, expectBlock: choice.exists, reserve });
  return block === NOT_OURS ? "none" : "claimed";
}

/** True as well when nothing can be said before an affinity has been mended. */
async function hasRoom(operation: Operation, request: FamilyRequest): Promise<boolean> {
  const pools = await poolsOf(operation, request);
  const candidates = (await operation.affinities(request.family)).filter(({ value }) => isInside(pools, prefixOf(value.cidr)));
  if (!candidates.every(({ value }) => isReady(value))) return true;
  const enough = lowMarkOf(pools);
  let free = 0;
  for (const { value } of candidates) {
    free += await freeIn(operation, request, value.cidr);
    if (free >= enough) return true;
  }
  return false;
}

/** Free addresses of a block, as this process knows it; 0 of one that is not the owner's. */
async function freeIn(operation: Operation, { owner }: FamilyRequest, cidr: string): Promise<number> {
  const block = await operation.datastore.blocks.get(cidr, { mayBeOld: true });
  if (block === undefined || !isOwnedBy(block.value, owner)) return 0;
  return freeOrdinals(await operation.normalised(block.value), await operation.reservations()).length;
}

function poolsOf(operation: Operation, { family, requestedPools, use, owner, reserve }: FamilyRequest): Promise<readonly UsablePool[]> {
  return choosePools(operation, { family, requested: requestedPools, use, host: owner.name, reserve });
}

/** By the largest blocks of the pools. */
function lowMarkOf(pools: readonly UsablePool[]): number {
  const sizes = pools.map(({ pool, prefix }) => 2 ** (bitsOf(prefix.address.family) - pool.blockSize));
  return Math.min(LOW_MARK, Math.max(0, ...sizes) / SMALL_BLOCK_PART);
}
