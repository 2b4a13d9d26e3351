/**
 * Grants addresses of one block: the block is read, the handle's count is raised, the block is written. Nothing else
 * grants (design, invariant 2; I§3.4).
 */
import { addressAt, type Family } from "../../lib/addresses/address.ts";
import type { BlockOwner, Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import type { FamilyRequest } from "./auto-assign-family.ts";
import { holderOf, isOwnedBy, isSameHolder, nextSequence, prefixOf, sequenceOf, take } from "./block.ts";
import { AT_LIMIT, type Hold, type Holder, hold, settle, undoHold } from "./handle.ts";
import { AGAIN, type Operation, type Try } from "./operation.ts";
import type { BlockRelease, ReleasedIn } from "./release-by-handle.ts";
import type { AssignedAddress } from "./types.ts";

export interface Grant extends Holder {
  readonly attribute: AllocationAttribute;
}

/** `at-limit`: the handle holds as many as it may. */
export type Granted = readonly AssignedAddress[] | typeof AT_LIMIT;

export interface BlockRequest {
  readonly cidr: string;
  readonly count: number;
  /** Only while this owner has the block; absent when borrowing. */
  readonly owner: BlockOwner | undefined;
  /** The block as read a moment ago. */
  readonly block: Versioned<Block> | undefined;
}

/**
 * What operations that are under way together in one process do together: many grants and releases of one block become one
 * compare-and-swap. Absent, each operation writes by itself, under the node's lock.
 */
export interface SharedWrites {
  grant(operation: Operation, request: BlockRequest, grant: Grant): Promise<Try<Granted>>;
  release(operation: Operation, cidr: string, release: BlockRelease): Promise<Try<ReleasedIn>>;
  /**
   * Runs `work`, which looks for another block, unless an operation of the same family does so already.
   * @returns false after that one has ended, without having run `work`: there may be room by now
   */
  inTurn(family: Family, work: () => Promise<void>): Promise<boolean>;
  /** Told of what an operation has been given of one family: time to do what the next one would have to wait for. */
  granted(operation: Operation, request: FamilyRequest, addresses: readonly AssignedAddress[]): void;
}

/** Up to `count` addresses of a block; none when it has gone, is full or has another owner. */
export function assignFromBlock(operation: Operation, request: BlockRequest, grant: Grant): Promise<Granted> {
  const { shared } = operation;
  let read = request.block;
  return operation.retry<Granted>(`block ${request.cidr}`, async (): Promise<Try<Granted>> => {
    if (shared !== undefined) return shared.grant(operation, request, grant);
    const stored = read ?? (await operation.datastore.blocks.get(request.cidr));
    read = undefined;
    if (stored === undefined || (request.owner !== undefined && !isOwnedBy(stored.value, request.owner))) return { result: [] };
    const current = await operation.normalised(stored.value);
    const taken = take(current, request.count, grant.attribute, await operation.reservations());
    if (taken.ordinals.length === 0) return { result: [] };
    const outcome = await writeGrant(operation, stored, taken.block, taken.ordinals, grant);
    if (outcome === AGAIN) return AGAIN;
    if (outcome === AT_LIMIT) return { result: AT_LIMIT };
    return { result: grantedIn(taken.block, taken.ordinals) };
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
    const now = await blockAfter(operation, stored, changed.cidr, error);
    return afterFailure(operation, { now, changed, ordinals, held, grant, error });
  }
}

/** The addresses as they were granted, by the block that was written. */
export function grantedIn(block: Block, ordinals: readonly number[]): readonly AssignedAddress[] {
  const prefix = prefixOf(block.cidr);
  return ordinals.map((ordinal) => ({
    prefix: { address: addressAt(prefix, ordinal), length: prefix.length },
    block: block.cidr,
    sequenceNumber: sequenceOf(block, ordinal),
    isReused: false,
  }));
}

interface FailedGrant {
  /** The block as it is now. */
  readonly now: Block | undefined;
  /** As it would be, had it been written. */
  readonly changed: Block;
  readonly ordinals: readonly number[];
  readonly held: Hold;
  readonly grant: Grant;
  readonly error: unknown;
}

/** @returns `undefined`: the addresses are there after all; else the count is set right @throws `error`, when the block has not moved on */
export async function afterFailure(operation: Operation, failed: FailedGrant): Promise<typeof AGAIN | undefined> {
  const { grant, held, error } = failed;
  grant.known = undefined;
  const traces = tracesIn(failed);
  if (traces === "ours") return undefined;
  if (traces === "none") await undoHold(operation, held);
  else await settle(operation, held.handle, held.cidr);
  if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
  throw error;
}

/**
 * The block after a write that failed: it may have happened after all, because only its answer was lost. A conflict may mean
 * that as well: the write was repeated after another process had written the block. When it cannot be told the error goes on, and the
 * handle keeps its count: too high does no harm, and the DEL of this attachment sets it right.
 *
 * @returns `undefined`: certainly not written, or gone
 */
export async function blockAfter(operation: Operation, stored: Versioned<Block>, cidr: string, error: unknown): Promise<Block | undefined> {
  if (isDatastoreFailure(error, "not-found", "invalid", "unauthorized")) return undefined;
  const now = await operation.datastore.blocks.get(cidr);
  if (now === undefined) return undefined;
  if (now.revision !== stored.revision) return now.value;
  if (isDatastoreFailure(error, "conflict")) return undefined;
  throw error;
}

/**
 * What a write that failed has left of a grant. Two nodes that grant to one handle from the same state of a block write the same
 * numbers; only the owners tell them apart. `doubtful`: the handle has the addresses, under owners that are not ours (or not any more).
 */
function tracesIn({ now, changed, ordinals, held }: FailedGrant): "ours" | "doubtful" | "none" {
  if (now === undefined) return "none";
  const isHeld = (ordinal: number): boolean =>
    holderOf(now, ordinal)?.handleId === held.handle && sequenceOf(now, ordinal) === sequenceOf(changed, ordinal);
  if (!ordinals.some(isHeld)) return "none";
  const isOurs = (ordinal: number): boolean => isHeld(ordinal) && isSameHolder(holderOf(now, ordinal), holderOf(changed, ordinal));
  return ordinals.every(isOurs) ? "ours" : "doubtful";
}
