/** The two owners of an address: the active one, and the one that takes over in a live migration (I§1.9). */
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { holderOf, nextSequence, ordinalOf, prefixOf, sanitised, withOrdinalAttribute } from "./block.ts";
import { blockOf, heldAt } from "./lookup.ts";
import { AGAIN, type Operation, type Try } from "./operation.ts";
import type { HeldAddress, OwnerAttributes, OwnerPreconditions, OwnerUpdates } from "./types.ts";

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
  const cidr = isKnown ? where.block : await blockOf(operation, address);
  if (cidr === undefined) {
    throw new TortieError("address-outside-pools", `${formatAddress(address)} is not in a configured pool, and in no block`);
  }
  // The block as the caller read it is tried first; a refusal needs a fresh read.
  let read = isKnown ? where.stored : undefined;
  return operation.retry<HeldAddress>(`block ${cidr}`, async () => {
    const isFresh = read === undefined;
    const stored = read ?? (await operation.datastore.blocks.get(cidr));
    read = undefined;
    try {
      const { block, ordinal, holder } = heldOrRefused(stored, address, change);
      const changed = updated(holder, change.updates);
      if (changed === undefined) return resultAt(block, ordinal);
      const next = nextSequence(withOrdinalAttribute(block.value, ordinal, changed), operation.clock.nowNs());
      return resultAt(await operation.datastore.blocks.update(cidr, next, block.revision), ordinal);
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

/** `undefined`: nothing changes. */
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

/** Whether all owners that an address has satisfy `isTheirs`; an address without one is asked about with no attributes. */
export function hasOwners(holder: Owners | undefined, isTheirs: (owner: OwnerAttributes) => boolean): boolean {
  return isTheirs(holder?.activeOwner ?? {}) && (holder?.alternateOwner === undefined || isTheirs(holder.alternateOwner));
}

/** An expectation names the pairs that must be there; one without pairs means that there must be no owner. */
function isAsExpected(owner: OwnerAttributes = {}, expected: OwnerAttributes | undefined): boolean {
  if (expected === undefined) return true;
  const pairs = Object.entries(expected);
  return pairs.length === 0 ? Object.keys(owner).length === 0 : pairs.every(([key, value]) => owner[key] === value);
}
