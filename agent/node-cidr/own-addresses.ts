/** The agent's own addresses in the node's range: router and health (A§1.6). Granted like any other, under the node's own names. */

import type { HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import { type HostRange, offsetOf } from "../../ipam-plugin/host-scope/range.ts";
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";

export const ROUTER = "node/router";
export const HEALTH = "node/health";

/**
 * The address that the node has under this name, the same one as before where that is possible.
 * @param remembered of the last start, or of the node's annotations
 * @returns `undefined` when the range is full: nothing ends for want of it
 */
export async function ownAddress(
  name: typeof ROUTER | typeof HEALTH,
  range: HostRange,
  remembered: readonly (Address | undefined)[],
  hostScope: HostScope,
): Promise<Address | undefined> {
  const owner = { kind: "name", name } as const;
  const usable = (address: Address | undefined): address is Address => address !== undefined && offsetOf(range, address) !== undefined;
  const held = (await hostScope.heldBy(owner)).map(({ address }) => address).filter(usable);
  const wanted = remembered.filter(usable);
  const kept = wanted.find((address) => held.some((one) => formatAddress(one) === formatAddress(address))) ?? held[0];
  if (kept !== undefined) return kept;
  for (const address of wanted) {
    // A pod that has it by now keeps it.
    const granted = await orNothing(() => hostScope.grant({ owner, addresses: [address], mayBeForeign: true }), "address-taken");
    if (granted !== undefined) return address;
  }
  const [granted] = (await orNothing(() => hostScope.grant({ owner, families: [range.family] }), "addresses-exhausted")) ?? [];
  return granted?.address;
}

async function orNothing<T>(grant: () => Promise<T>, word: string): Promise<T | undefined> {
  try {
    return await grant();
  } catch (error) {
    if (error instanceof TortieError && error.word === word) return undefined;
    throw error;
  }
}
