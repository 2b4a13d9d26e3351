/** Finds who holds what, and who its two owners are: the active one, and the one that takes over in a live migration (I§1.9). */
import { type Address, addressAt, type Family, formatAddress, formatPrefix, hostPrefix } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import { type AllocationAttribute, type Block, sanitised } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, holderOf, nextSequence, ordinalOf, ordinalsOf, prefixOf, sequenceOf, withOrdinalAttribute } from "./block.ts";
import { settle } from "./handle.ts";
import type { Operation } from "./operation.ts";
import { blockPrefixOf, poolOf, usable } from "./pools.ts";
import {
  AGAIN,
  type AssignedAddress,
  type HeldAddress,
  type OwnerAttributes,
  type OwnerPreconditions,
  type OwnerUpdates,
  type Try,
} from "./types.ts";

/** Lists the addresses of a handle; `undefined`: no such handle. */
export async function addressesByHandle(operation: Operation, handle: string): Promise<readonly HeldAddress[] | undefined> {
  const stored = await operation.datastore.handles.get(handle);
  if (stored === undefined) return undefined;
  const blocks = await Promise.all(Object.keys(stored.value.blocks).map((cidr) => operation.datastore.blocks.get(cidr)));
  return blocks.flatMap((block) => heldIn(block, handle));
}

/** Lists the addresses of a handle in one block. @throws DatastoreError `invalid` for a block that cannot be decoded */
export function heldIn(block: Versioned<Block> | undefined, handle: string): readonly HeldAddress[] {
  if (block === undefined) return [];
  return ordinalsOf(block.value, handle).flatMap((ordinal) => heldAt(block, ordinal) ?? []);
}

/** Returns the attributes of an address; `undefined`: nobody holds it. @throws TortieError `address-outside-pools` */
export async function attributesOf(operation: Operation, address: Address): Promise<HeldAddress | undefined> {
  const cidr = await mustBeInBlock(operation, address);
  const block = await storedBlockOf(operation, cidr, address);
  if (block === undefined) return undefined;
  const ordinal = ordinalOf(prefixOf(block.value.cidr), address);
  return ordinal === undefined ? undefined : heldAt(block, ordinal);
}

/**
 * Reads the block of an address: that of its place in the pool, or one of another size, which the pool had when the block was made.
 * @param place CIDR that a block of the pool's block size has
 */
export async function storedBlockOf(operation: Operation, place: string, address: Address): Promise<Versioned<Block> | undefined> {
  const { blocks } = operation.datastore;
  const expected = await blocks.get(place);
  if (expected !== undefined) return expected;
  const cidr = (await blocks.listCidrs()).find((other) => other !== place && ordinalOf(prefixOf(other), address) !== undefined);
  return cidr === undefined ? undefined : blocks.get(cidr);
}

/** Finds the CIDR of the block of an address: by its pool, disabled or not, else by looking through all blocks (I§4.2.1). */
export async function blockOf(operation: Operation, address: Address): Promise<string | undefined> {
  const pool = poolOf(usable(await operation.pools()), address);
  if (pool !== undefined) return formatPrefix(blockPrefixOf(pool, address));
  return (await operation.blocks()).find(({ value }) => ordinalOf(prefixOf(value.cidr), address) !== undefined)?.value.cidr;
}

async function mustBeInBlock(operation: Operation, address: Address): Promise<string> {
  const cidr = await blockOf(operation, address);
  if (cidr !== undefined) return cidr;
  throw new TortieError("address-outside-pools", `${formatAddress(address)} is not in a configured pool, and in no block`);
}

/** Returns the allocation; `undefined`: free or in cooldown. */
export function heldAt(stored: Versioned<Block>, ordinal: number): HeldAddress | undefined {
  const block = stored.value;
  const holder = holderOf(block, ordinal);
  if (holder === undefined) return undefined;
  return {
    address: addressAt(prefixOf(block.cidr), ordinal),
    block: block.cidr,
    handle: holder.handleId === undefined ? undefined : sanitised(holder.handleId),
    activeOwner: holder.activeOwner ?? {},
    alternateOwner: holder.alternateOwner ?? {},
    sequenceNumber: sequenceOf(block, ordinal),
    stored,
  };
}

/**
 * Finds `count` addresses of the family that the handle holds. When it counts more than it holds, another process is on the way or has died on
 * it: the counts are set right, and the result is `undefined`, "try again".
 */
export async function reusable(
  operation: Operation,
  handle: string,
  family: Family,
  count: number,
): Promise<readonly AssignedAddress[] | undefined> {
  const held = (await addressesByHandle(operation, handle))?.filter(({ address }) => address.family === family) ?? [];
  if (held.length >= count) {
    return held
      .slice(0, count)
      .map(({ address, block, sequenceNumber }) => ({ prefix: hostPrefix(address), block, sequenceNumber, isReused: true }));
  }
  const stored = await operation.datastore.handles.get(handle);
  for (const cidr of Object.keys(stored?.value.blocks ?? {})) {
    if (familyOf(cidr) === family) await settle(operation, handle, cidr);
  }
  return undefined;
}

interface OwnerChange {
  readonly where: Address | HeldAddress;
  readonly handle: string;
  readonly updates: OwnerUpdates;
  readonly preconditions: OwnerPreconditions;
}

/**
 * Changes the owners of an address if they are what is expected; the whole of it is one compare-and-swap of the block.
 * @returns the address as it is now
 * @throws TortieError `address-outside-pools`, `address-not-assigned`, `owner-conflict`
 */
export async function setOwnerAttributes(operation: Operation, change: OwnerChange): Promise<HeldAddress> {
  const { where } = change;
  const isKnown = "stored" in where;
  const address = isKnown ? where.address : where;
  const cidr = isKnown ? where.block : await mustBeInBlock(operation, address);
  // The block as the caller read it is tried first; a refusal needs a fresh read.
  let read = isKnown ? where.stored : undefined;
  return operation.retry<HeldAddress>(`block ${cidr}`, async () => {
    const isFresh = read === undefined;
    const stored = read ?? (await storedBlockOf(operation, cidr, address));
    read = undefined;
    try {
      const { block, ordinal, holder } = heldOrRefused(stored, address, change);
      const changed = updated(holder, change.updates);
      if (changed === undefined) return resultAt(block, ordinal);
      const next = nextSequence(withOrdinalAttribute(block.value, ordinal, changed), operation.clock.nowNs());
      return resultAt(await operation.datastore.blocks.update(block.value.cidr, next, block.revision), ordinal);
    } catch (error) {
      if (isDatastoreFailure(error, "conflict", "not-found") || (isRefusal(error) && !isFresh)) return AGAIN;
      throw error;
    }
  });
}

interface Held {
  readonly block: Versioned<Block>;
  readonly ordinal: number;
  readonly holder: AllocationAttribute;
}

function heldOrRefused(
  block: Versioned<Block> | undefined,
  address: Address,
  { handle, preconditions }: Pick<OwnerChange, "handle" | "preconditions">,
): Held {
  const text = formatAddress(address);
  const ordinal = block === undefined ? undefined : ordinalOf(prefixOf(block.value.cidr), address);
  const holder = block === undefined || ordinal === undefined ? undefined : holderOf(block.value, ordinal);
  if (block === undefined || ordinal === undefined || holder === undefined) {
    throw new TortieError("address-not-assigned", `resource does not exist: ${text} with error: address is not assigned`);
  }
  if (sanitised(holder.handleId ?? "") !== sanitised(handle)) {
    throw new TortieError("address-not-assigned", `${text} is not assigned to handle ${handle}`);
  }
  const other = unexpectedOwner(holder, preconditions);
  if (other !== undefined) throw new TortieError("owner-conflict", `update conflict: ${text}: the ${other} owner is not the expected one`);
  return { block, ordinal, holder };
}

function resultAt(block: Versioned<Block>, ordinal: number): Try<HeldAddress> {
  const held = heldAt(block, ordinal);
  return held === undefined ? AGAIN : { result: held };
}

/** Returns the changed allocation; `undefined`: nothing changes. */
function updated(holder: AllocationAttribute, { active, alternate }: OwnerUpdates): AllocationAttribute | undefined {
  if (active === undefined && alternate === undefined) return undefined;
  const { activeOwner, alternateOwner, ...rest } = holder;
  const nextActive = active === undefined ? activeOwner : (active ?? undefined);
  const nextAlternate = alternate === undefined ? alternateOwner : (alternate ?? undefined);
  return {
    ...rest,
    ...(nextActive === undefined ? {} : { activeOwner: nextActive }),
    ...(nextAlternate === undefined ? {} : { alternateOwner: nextAlternate }),
  };
}

type Owners = Pick<AllocationAttribute, "activeOwner" | "alternateOwner">;

/** @returns the first owner that is not the expected one */
export function unexpectedOwner(holder: Owners | undefined, expected: OwnerPreconditions = {}): "active" | "alternate" | undefined {
  if (!isAsExpected(holder?.activeOwner, expected.active)) return "active";
  return isAsExpected(holder?.alternateOwner, expected.alternate) ? undefined : "alternate";
}

/** Tells whether all owners that an address has satisfy `isTheirs`; an address without one is asked about with no attributes. */
export function hasOwners(holder: Owners | undefined, isTheirs: (owner: OwnerAttributes) => boolean): boolean {
  return isTheirs(holder?.activeOwner ?? {}) && (holder?.alternateOwner === undefined || isTheirs(holder.alternateOwner));
}

/** Compares an owner with an expectation, which names the pairs that must be there; one without pairs allows no owner. */
function isAsExpected(owner: OwnerAttributes = {}, expected: OwnerAttributes | undefined): boolean {
  if (expected === undefined) return true;
  const pairs = Object.entries(expected);
  return pairs.length === 0 ? Object.keys(owner).length === 0 : pairs.every(([key, value]) => owner[key] === value);
}
