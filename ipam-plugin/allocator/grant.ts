/**
 * Grants addresses of one block: the block is read, the handle's count is raised, the block is written. Nothing else
 * grants (design, invariant 2; I§3.4).
 */
import { addressAt, type Prefix } from "../../lib/addresses/address.ts";
import type { BlockOwner, Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import { holderOf, isOwnedBy, isSameHolder, nextSequence, prefixOf, sequenceOf, take } from "./block.ts";
import { AT_LIMIT, type Hold, type Holder, hold, settle, undoHold } from "./handle.ts";
import { AGAIN, type Operation } from "./operation.ts";
import type { AssignedAddress } from "./types.ts";

export interface Grant extends Holder {
  readonly attribute: AllocationAttribute;
}

interface BlockRequest {
  readonly cidr: string;
  readonly count: number;
  /** Only while this owner has the block; absent when borrowing. */
  readonly owner: BlockOwner | undefined;
  /** The block as read a moment ago. */
  readonly block: Versioned<Block> | undefined;
}

/**
 * Up to `count` addresses of a block; none when it has gone, is full or has another owner.
 * `at-limit`: the handle holds as many as it may.
 */
export function assignFromBlock(
  operation: Operation,
  request: BlockRequest,
  grant: Grant,
): Promise<readonly AssignedAddress[] | typeof AT_LIMIT> {
  let read = request.block;
  return operation.retry<readonly AssignedAddress[] | typeof AT_LIMIT>(`block ${request.cidr}`, async () => {
    const stored = read ?? (await operation.datastore.blocks.get(request.cidr));
    read = undefined;
    if (stored === undefined || (request.owner !== undefined && !isOwnedBy(stored.value, request.owner))) return { result: [] };
    const current = await operation.normalised(stored.value);
    const taken = take(current, request.count, grant.attribute, await operation.reservations());
    if (taken.ordinals.length === 0) return { result: [] };
    const outcome = await writeGrant(operation, stored, taken.block, taken.ordinals, grant);
    if (outcome === AGAIN) return AGAIN;
    if (outcome === AT_LIMIT) return { result: AT_LIMIT };
    const prefix = prefixOf(request.cidr);
    return { result: taken.ordinals.map((ordinal) => granted(taken.block, prefix, ordinal)) };
  });
}

/** Raises the handle, then writes the block at the revision it was read; the handle is lowered again when the block has moved on. */
export async function writeGrant(
  operation: Operation,
  stored: Versioned<Block>,
  changed: Block,
  ordinals: readonly number[],
  grant: Grant,
): Promise<typeof AGAIN | typeof AT_LIMIT | undefined> {
  const held = await hold(operation, grant, changed.cidr, ordinals.length);
  if (held === AT_LIMIT) return AT_LIMIT;
  try {
    await operation.datastore.blocks.update(changed.cidr, nextSequence(changed, operation.clock.nowNs()), stored.revision);
    return undefined;
  } catch (error) {
    grant.known = undefined;
    const traces = await tracesOf(operation, stored, changed, ordinals, held, error);
    if (traces === "ours") return undefined;
    if (traces === "none") await undoHold(operation, held);
    else await settle(operation, held.handle, held.cidr);
    if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
    throw error;
  }
}

function granted(block: Block, prefix: Prefix, ordinal: number): AssignedAddress {
  return {
    prefix: { address: addressAt(prefix, ordinal), length: prefix.length },
    block: block.cidr,
    sequenceNumber: sequenceOf(block, ordinal),
    isReused: false,
  };
}

/**
 * What a write that failed has left in the block: it may have happened after all, because only its answer was lost. A conflict may mean
 * that as well: the write was repeated after another process had written the block. When it cannot be told the error goes on, and the
 * handle keeps its count: too high does no harm, and the DEL of this attachment sets it right.
 *
 * Two nodes that grant to one handle from the same state of a block write the same numbers; only the owners tell them apart. `doubtful`:
 * the handle has the addresses, under owners that are not ours (or not any more).
 */
async function tracesOf(
  operation: Operation,
  stored: Versioned<Block>,
  changed: Block,
  ordinals: readonly number[],
  held: Hold,
  error: unknown,
): Promise<"ours" | "doubtful" | "none"> {
  if (isDatastoreFailure(error, "not-found", "invalid", "unauthorized")) return "none";
  const now = await operation.datastore.blocks.get(changed.cidr);
  if (now === undefined) return "none";
  if (now.revision === stored.revision) {
    if (isDatastoreFailure(error, "conflict")) return "none";
    throw error;
  }
  const isHeld = (ordinal: number): boolean =>
    holderOf(now.value, ordinal)?.handleId === held.handle && sequenceOf(now.value, ordinal) === sequenceOf(changed, ordinal);
  if (!ordinals.some(isHeld)) return "none";
  const isOurs = (ordinal: number): boolean => isHeld(ordinal) && isSameHolder(holderOf(now.value, ordinal), holderOf(changed, ordinal));
  return ordinals.every(isOurs) ? "ours" : "doubtful";
}
