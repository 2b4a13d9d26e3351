/** One address that somebody uses already, made theirs in the datastore (I§7). */
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import { isRefusal } from "../../lib/datastore/errors.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { OwnerAttributes } from "../allocator/allocator.ts";
import type { UpgradePorts } from "./ports.ts";

export interface Claimant {
  readonly handle: string;
  readonly attributes: OwnerAttributes;
}

/**
 * Harmless to repeat: an address that the claimant has already is fine.
 *
 * @returns false when the datastore says that it is another's, which cannot be mended here
 * @throws TortieError `address-outside-pools`, `affinity-strict`; DatastoreError
 */
export async function claimAddress(
  { allocator, node, log }: Pick<UpgradePorts, "allocator" | "node" | "log">,
  address: Address,
  { handle, attributes }: Claimant,
): Promise<boolean> {
  try {
    await allocator.assignIp({ address, handle, attributes, owner: { type: "host", name: node } });
    return true;
  } catch (error) {
    if (!(error instanceof TortieError && error.word === "address-taken")) throw named(error, address);
    const holder = await allocator.attributesOf(address);
    if (holder?.handle === handle) return true;
    const whose = holder?.handle === undefined ? "nobody yet, it is cooling down" : `handle ${holder.handle}`;
    log.error(`${formatAddress(address)} is in use by handle ${handle}, but the datastore says it belongs to ${whose}: remove one of them`);
    return false;
  }
}

/** The allocator's errors in Calico's words name no address; here many are worked through, and one of them is wrong. */
export function named(error: unknown, address: Address): unknown {
  if (!isRefusal(error)) return error;
  const { word, next, message } = error;
  return new TortieError(word, `${formatAddress(address)}: ${message.trim()}`, { cause: error, next });
}
