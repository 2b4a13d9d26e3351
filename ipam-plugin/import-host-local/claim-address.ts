/** Allocates an address in the datastore to the container or tunnel that uses it already (I§7). */

import { type Address, addressAt, formatAddress, maskPrefix, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { OwnerAttributes } from "../allocator/types.ts";
import type { UpgradeCluster, UpgradePorts } from "./ports.ts";

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

const MOST_TRIES = 5;
const PAUSE_MS = 1000;

/** Safe to repeat because a write that conflicted has changed nothing. @throws what the last try threw */
export async function persistently({ sleep }: Pick<UpgradePorts, "sleep">, write: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await write();
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict") || tries === MOST_TRIES) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

/**
 * Nothing to do for a node that has one, and for IPv6. The address is claimed before the node names it, so that a node killed in
 * between claims it again. One that a pod has by mistake is not named: the node agent finds another at its start.
 */
export async function ensureTunnelAddress(ports: UpgradePorts, cluster: UpgradeCluster): Promise<void> {
  const { node } = ports;
  if (((await cluster.tunnelAddress()) ?? "") !== "") return;
  const podCidr = parsePrefix((await cluster.podCidr()) ?? "");
  if (podCidr === undefined || podCidr.address.family === 6 || sizeOf(podCidr) < 2n) return;
  const address = addressAt(maskPrefix(podCidr), 1);
  const claimant = { handle: `ipip-tunnel-addr-${node}`, attributes: { node, type: "ipipTunnelAddress" } };
  if (!(await claimAddress(ports, address, claimant))) return;
  await persistently(ports, () => cluster.setTunnelAddress(formatAddress(address)));
}
