/** The two owners of an address: the active one, and the one that takes over in a live migration (I§1.9). */
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { HeldAddress, OwnerPreconditions, OwnerUpdates } from "./allocator.ts";
import { holderOf, nextSequence, ordinalOf, prefixOf, sanitised, withOrdinalAttribute } from "./block.ts";
import type { Context, View } from "./context.ts";
import { unexpectedOwner } from "./owner-preconditions.ts";
import { blockOf, heldAt } from "./queries.ts";
import { AGAIN, retry, type Try } from "./retry.ts";

export interface OwnerChange {
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
export async function setOwnerAttributes(
  context: Context,
  view: View,
  change: OwnerChange,
  signal: AbortSignal | undefined,
): Promise<HeldAddress> {
  const { where } = change;
  const isKnown = "stored" in where;
  const address = isKnown ? where.address : where;
  const cidr = isKnown ? where.block : await blockOf(view, address);
  if (cidr === undefined) {
    throw new TortieError("address-outside-pools", `${formatAddress(address)} is not in a configured pool, and in no block`);
  }
  // What was looked up a moment ago is tried first; a refusal must not rest on it.
  let read = isKnown ? where.stored : undefined;
  return retry<HeldAddress>(context, signal, `block ${cidr}`, async () => {
    const isFresh = read === undefined;
    const stored = read ?? (await context.datastore.blocks.get(cidr));
    read = undefined;
    try {
      const { block, ordinal, holder } = heldOrRefused(stored, address, change);
      const changed = updated(holder, change.updates);
      if (changed === undefined) return resultAt(block, ordinal);
      const next = nextSequence(withOrdinalAttribute(block.value, ordinal, changed), context.clock.nowNs());
      return resultAt(await context.datastore.blocks.update(cidr, next, block.revision), ordinal);
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
