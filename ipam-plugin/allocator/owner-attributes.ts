/** The two owners of an address: the active one, and the one that takes over in a live migration (I§1.9). */
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import { isDatastoreFailure } from "../../lib/datastore/datastore.ts";
import type { AllocationAttribute } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors.ts";
import type { OwnerPreconditions, OwnerUpdates } from "./allocator.ts";
import { holderOf, nextSequence, ordinalOf, prefixOf, sanitised, withOrdinalAttribute } from "./block.ts";
import type { Context, View } from "./context.ts";
import { unexpectedOwner } from "./owner-preconditions.ts";
import { blockOf } from "./queries.ts";
import { AGAIN, retry } from "./retry.ts";

export interface OwnerChange {
  readonly address: Address;
  readonly handle: string;
  readonly updates: OwnerUpdates;
  readonly preconditions: OwnerPreconditions;
}

/**
 * Changes the owners of an address if they are what is expected; the whole of it is one compare-and-swap of the block.
 * @throws TortieError `address-outside-pools`, `address-not-assigned`, `owner-conflict`
 */
export async function setOwnerAttributes(
  context: Context,
  view: View,
  { address, handle, updates, preconditions }: OwnerChange,
  signal: AbortSignal | undefined,
): Promise<void> {
  const text = formatAddress(address);
  const cidr = await blockOf(view, address);
  if (cidr === undefined) throw new TortieError("address-outside-pools", `${text} is not in a configured pool, and in no block`);
  await retry(context, signal, `block ${cidr}`, async () => {
    const stored = await context.datastore.blocks.get(cidr);
    const ordinal = ordinalOf(prefixOf(cidr), address);
    const holder = stored === undefined || ordinal === undefined ? undefined : holderOf(stored.value, ordinal);
    if (stored === undefined || ordinal === undefined || holder === undefined) {
      throw new TortieError("address-not-assigned", `resource does not exist: ${text} with error: address is not assigned`);
    }
    if (sanitised(holder.handleId ?? "") !== sanitised(handle)) {
      throw new TortieError("address-not-assigned", `${text} is not assigned to handle ${handle}`);
    }
    const other = unexpectedOwner(holder, preconditions);
    if (other !== undefined)
      throw new TortieError("owner-conflict", `update conflict: ${text}: the ${other} owner is not the expected one`);
    const changed = updated(holder, updates);
    if (changed === undefined) return { result: undefined };
    try {
      const block = withOrdinalAttribute(stored.value, ordinal, changed);
      await context.datastore.blocks.update(cidr, nextSequence(block, context.clock.nowNs()), stored.revision);
      return { result: undefined };
    } catch (error) {
      if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
      throw error;
    }
  });
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
