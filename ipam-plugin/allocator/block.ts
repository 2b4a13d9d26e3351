/**
 * Operations on one block, all pure: a block goes in, a changed copy comes out, without requests (I§2.4, I§3.4, I§3.7).
 * The caller writes the copy at the revision it read, which is what grants or frees the addresses.
 *
 * Damage is survived here: an ordinal that is both allocated and listed as free is allocated, an entry of the queue that
 * is out of range or there twice is dropped, an allocation whose attribute is missing stays an allocation.
 */
import { type Address, addressAt, contains, type Family, type Prefix, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { type AllocationAttribute, type Block, type BlockOwner, sanitised } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Reservations } from "./reservations.ts";

/** Names the handle of the ordinals that Calico on Windows keeps for the host: they do not make a block non-empty (I§3.7). */
const WINDOWS_RESERVED_HANDLE = "windows-reserved-ipam-handle";

/** Is the largest number that the Kubernetes schema takes (int64; recording sequence-max). */
const LARGEST_SEQUENCE_NUMBER = 2n ** 63n - 1n;

/** Reads the CIDR of a block. @throws TortieError `datastore-object-invalid` */
export function prefixOf(cidr: string): Prefix {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new TortieError("datastore-object-invalid", `block "${cidr}" has no valid CIDR`);
  return prefix;
}

/** Makes a new block: every ordinal free, in order (I§3.6). */
export function newBlock(cidr: string, owner: BlockOwner, nowMs: number, nowNs: bigint): Block {
  const unallocated = Array.from({ length: Number(sizeOf(prefixOf(cidr))) }, (_, ordinal) => ordinal);
  return {
    cidr,
    affinity: owner,
    affinityClaimTime: rfc3339(nowMs),
    allocations: unallocated.map(() => null),
    unallocated,
    attributes: [],
    sequenceNumber: nowNs,
    sequenceNumberForAllocation: {},
  };
}

/** Takes ordinals wherever they stand in the queue (I§3.4, I§3.11). The caller has seen that they are free. */
export function allocate(block: Block, ordinals: readonly number[], attribute: AllocationAttribute): Block {
  const { attributes, index } = withAttribute(block.attributes, attribute);
  const allocations = [...block.allocations];
  const sequenceNumberForAllocation = { ...block.sequenceNumberForAllocation };
  for (const ordinal of ordinals) {
    allocations[ordinal] = index;
    sequenceNumberForAllocation[ordinal] = block.sequenceNumber;
  }
  return compacted({ ...block, allocations, unallocated: sound(block, allocations), attributes, sequenceNumberForAllocation });
}

/**
 * Puts ordinals into cooldown: all share one new attribute (I§4.1.2). The next process that normalises the block sets them free
 * when their time is over, at once when no cooldown is configured.
 * @param newSequence sequence number that the ordinals get (release by address, I§4.2.4)
 */
export function release(block: Block, ordinals: readonly number[], nowMs: number, newSequence?: bigint): Block {
  const attributes = [...block.attributes, { releasedAt: rfc3339(nowMs) }];
  const allocations = [...block.allocations];
  const sequenceNumberForAllocation = { ...block.sequenceNumberForAllocation };
  for (const ordinal of ordinals) {
    allocations[ordinal] = attributes.length - 1;
    if (newSequence !== undefined) sequenceNumberForAllocation[ordinal] = newSequence;
  }
  return compacted({ ...block, allocations, unallocated: sound(block, allocations), attributes, sequenceNumberForAllocation });
}

/** Gives one ordinal another attribute; others that shared the old one keep it (I§1.9, owners of a VM's address). */
export function withOrdinalAttribute(block: Block, ordinal: number, attribute: AllocationAttribute): Block {
  const { attributes, index } = withAttribute(block.attributes, attribute);
  return compacted({ ...block, allocations: block.allocations.with(ordinal, index), attributes });
}

/** Returns the block without an owner: what is left of it lives until its last address goes (I§4.3). */
export function withoutOwner(block: Block): Block {
  const { affinity: _owner, affinityClaimTime: _since, ...rest } = block;
  return rest;
}

/** Returns the next state of a block about to be written: every update counts, by which stale writers are known (I§2.4). */
export function nextSequence(block: Block, nowNs: bigint): Block {
  const next = block.sequenceNumber + 1n;
  return { ...block, sequenceNumber: next > LARGEST_SEQUENCE_NUMBER ? nowNs : next };
}

/** Lists free ordinals in the order in which they are handed out. */
export function freeOrdinals(block: Block, reservations: Reservations): readonly number[] {
  if (block.unallocated.length === 0) return [];
  const free = sound(block, block.allocations);
  const prefix = prefixOf(block.cidr);
  const family = prefix.address.family;
  if (reservations.isEmpty(family)) return free;
  return free.filter((ordinal) => reservations.reservedUntil(family, addressAt(prefix, ordinal).value) === undefined);
}

/** Tells whether no address is allocated or cooling down, but for those that Windows keeps (I§3.7). */
export function isEmpty(block: Block): boolean {
  return block.allocations.every((index) => index === null || block.attributes[index]?.handleId?.toLowerCase() === WINDOWS_RESERVED_HANDLE);
}

/** Tells whether every address of the block is reserved. */
export function isWhollyReserved(prefix: Prefix, reservations: Reservations): boolean {
  const { family, value } = prefix.address;
  return reservations.countIn(family, value, sizeOf(prefix)) === sizeOf(prefix);
}

/** Ordinals that a handle holds, in order. */
export function ordinalsOf(block: Block, handle: string): readonly number[] {
  const wanted = sanitised(handle);
  const ordinals: number[] = [];
  for (const [ordinal, index] of block.allocations.entries()) {
    const held = index === null ? undefined : block.attributes[index]?.handleId;
    if (held !== undefined && sanitised(held) === wanted) ordinals.push(ordinal);
  }
  return ordinals;
}

/** Returns the attribute of an ordinal: `undefined` when it is free or cooling down. */
export function holderOf(block: Block, ordinal: number): AllocationAttribute | undefined {
  const index = block.allocations[ordinal] ?? null;
  if (index === null) return undefined;
  const attribute = block.attributes[index] ?? {};
  return attribute.releasedAt === undefined ? attribute : undefined;
}

export function isFree(block: Block, ordinal: number): boolean {
  return (block.allocations[ordinal] ?? null) === null;
}

/** Returns the sequence number of an ordinal; a missing one counts as 0 (I§4.2.3). */
export function sequenceOf(block: Block, ordinal: number): bigint {
  return block.sequenceNumberForAllocation[ordinal] ?? 0n;
}

/** Returns the place of an address in its block; `undefined` when it lies elsewhere. */
export function ordinalOf(prefix: Prefix, address: Address): number | undefined {
  return contains(prefix, address) ? Number(address.value - prefix.address.value) : undefined;
}

/** Tells whether its allocations can be decoded: the blocks of a list decode them when they are first looked at. */
export function isReadable(block: Block): boolean {
  try {
    return Array.isArray(block.allocations);
  } catch (error) {
    if (isDatastoreFailure(error, "invalid")) return false;
    throw error;
  }
}

export function isOwnedBy(block: Block, owner: BlockOwner): boolean {
  return block.affinity !== undefined && block.affinity.type === owner.type && block.affinity.name === owner.name;
}

export function familyOf(cidr: string): Family {
  return cidr.includes(":") ? 6 : 4;
}

/** Writes a time as Calico does: RFC 3339 in UTC with whole seconds. */
export function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Returns the queue without what cannot be handed out: out of range, named before, or allocated. */
function sound(block: Block, allocations: readonly (number | null)[]): readonly number[] {
  const seen = new Set<number>();
  return block.unallocated.filter((ordinal) => {
    if (allocations[ordinal] !== null || seen.has(ordinal)) return false;
    seen.add(ordinal);
    return true;
  });
}

/** Returns the list with `attribute` in it, at `index`: an equal one is shared. */
function withAttribute(
  attributes: readonly AllocationAttribute[],
  attribute: AllocationAttribute,
): { readonly attributes: readonly AllocationAttribute[]; readonly index: number } {
  const index = attributes.findIndex((other) => isEqual(other, attribute));
  return index >= 0 ? { attributes, index } : { attributes: [...attributes, attribute], index: attributes.length };
}

/**
 * Drops attributes without allocation and numbers the rest again, order kept. An allocation whose attribute does not exist gets
 * an empty one, so that a later attribute cannot slip under it.
 */
export function compacted(block: Block): Block {
  const places = new Map<number, number>();
  const used = new Set(block.allocations);
  const attributes = block.attributes.filter((_, index) => {
    if (used.has(index)) places.set(index, places.size);
    return used.has(index);
  });
  let unknown: number | undefined;
  const allocations = block.allocations.map((index) => {
    if (index === null) return null;
    const place = places.get(index);
    if (place !== undefined) return place;
    unknown ??= attributes.push({}) - 1;
    return unknown;
  });
  return { ...block, allocations, attributes };
}

export function isSameHolder(a: AllocationAttribute | undefined, b: AllocationAttribute | undefined): boolean {
  return a !== undefined && b !== undefined && isEqual(a, b);
}

function isEqual(a: AllocationAttribute, b: AllocationAttribute): boolean {
  return (
    a.handleId === b.handleId &&
    a.releasedAt === b.releasedAt &&
    areEqual(a.activeOwner, b.activeOwner) &&
    areEqual(a.alternateOwner, b.alternateOwner)
  );
}

function areEqual(a: Readonly<Record<string, string>> = {}, b: Readonly<Record<string, string>> = {}): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}

/** Allows for `releasedAt`, which is stored in whole seconds, rounded down: the address may have been released up to so much later. */
const STORED_RESOLUTION_MS = 1000;

/** Tells whether the block has ordinals that wait: only then does the length of the cooldown matter. */
export function hasCooling(block: Block): boolean {
  return block.attributes.some((attribute) => attribute.releasedAt !== undefined);
}

/** Returns the block with every ordinal set free whose cooldown is over, in ascending order, at the tail of the queue. */
export function normalise(block: Block, cooldownSeconds: number, nowMs: number): Block {
  const over = new Set<number>();
  for (const [index, attribute] of block.attributes.entries()) {
    if (isOver(attribute, cooldownSeconds, nowMs)) over.add(index);
  }
  if (over.size === 0) return block;
  const allocations = [...block.allocations];
  const unallocated = block.unallocated.filter((ordinal) => (allocations[ordinal] ?? null) === null);
  const sequenceNumberForAllocation = { ...block.sequenceNumberForAllocation };
  allocations.forEach((index, ordinal) => {
    if (index === null || !over.has(index)) return;
    allocations[ordinal] = null;
    unallocated.push(ordinal);
    delete sequenceNumberForAllocation[ordinal];
  });
  return compacted({ ...block, allocations, unallocated, sequenceNumberForAllocation });
}

/** Tells whether the cooldown is over. A time that cannot be read counts as long ago: the address could never be freed otherwise. */
function isOver({ releasedAt }: AllocationAttribute, cooldownSeconds: number, nowMs: number): boolean {
  if (releasedAt === undefined) return false;
  const released = Date.parse(releasedAt);
  if (Number.isNaN(released)) return true;
  if (cooldownSeconds === 0) return released <= nowMs;
  return released + STORED_RESOLUTION_MS + cooldownSeconds * 1000 <= nowMs;
}
