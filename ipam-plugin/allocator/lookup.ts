/** Who holds what: look-ups that change no address. */
import { type Address, addressAt, type Family, formatAddress, formatPrefix, hostPrefix } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, holderOf, ordinalOf, ordinalsOf, prefixOf, sanitised, sequenceOf } from "./block.ts";
import { settle } from "./handle.ts";
import type { Operation } from "./operation.ts";
import { blockPrefixOf, poolOf, usable } from "./pools.ts";
import type { AssignedAddress, HeldAddress } from "./types.ts";

/** `undefined`: no such handle. */
export async function addressesByHandle(operation: Operation, handle: string): Promise<readonly HeldAddress[] | undefined> {
  const stored = await operation.datastore.handles.get(handle);
  if (stored === undefined) return undefined;
  const blocks = await Promise.all(Object.keys(stored.value.blocks).map((cidr) => operation.datastore.blocks.get(cidr)));
  return blocks.flatMap((block) => {
    if (block === undefined) return [];
    return ordinalsOf(block.value, handle).flatMap((ordinal) => heldAt(block, ordinal) ?? []);
  });
}

/** `undefined`: it has no holder. @throws TortieError `address-outside-pools` */
export async function attributesOf(operation: Operation, address: Address): Promise<HeldAddress | undefined> {
  const cidr = await blockOf(operation, address);
  if (cidr === undefined) {
    throw new TortieError("address-outside-pools", `${formatAddress(address)} is not in a configured pool, and in no block`);
  }
  const block = await operation.datastore.blocks.get(cidr);
  if (block === undefined) return undefined;
  const ordinal = ordinalOf(prefixOf(cidr), address);
  return ordinal === undefined ? undefined : heldAt(block, ordinal);
}

/** CIDR of the block of an address: by its pool, disabled or not, else by looking through all blocks (I§4.2.1). */
export async function blockOf(operation: Operation, address: Address): Promise<string | undefined> {
  const pool = poolOf(usable(await operation.pools()), address);
  if (pool !== undefined) return formatPrefix(blockPrefixOf(pool, address));
  return (await operation.blocks()).find(({ value }) => ordinalOf(prefixOf(value.cidr), address) !== undefined)?.value.cidr;
}

/** `undefined`: free or in cooldown. */
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
 * `count` addresses of the family that the handle holds. When it counts more than it holds, another process is on the way or has died on
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
