/** IPAM STATUS: could an ADD get its addresses now? If not, code 50 and what is in the way (CNI 1.1.0). Changes nothing. */
import { type Family, formatPrefix, maskPrefix, parsePrefix } from "../lib/addresses/address.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { checkPolicyType, chooseDatastore } from "../lib/config/datastore-choice.ts";
import { checkLocalPools } from "../lib/config/local-pools.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { once } from "../lib/system/once.ts";
import { freeOrdinals, isOwnedBy, prefixOf } from "./allocator/block.ts";
import { isInside, usable as placedPools } from "./allocator/pools.ts";
import { noPools, poolChanges } from "./pools-from-config.ts";
import type { IpamServices } from "./services.ts";

/** @throws TortieError `status-unavailable` */
export async function ipamStatus(_request: CniRequest, config: NetworkConfig, services: IpamServices): Promise<void> {
  const { datastore, allocator } = services;
  const stored = await unavailableUnless("datastore", async () => (await datastore.pools.list()).map(({ value }) => value));
  const isNew = new Set<string>();
  const pools = await unavailableUnless("pools", async () => {
    checkPolicyType(config, chooseDatastore(config, services.env));
    if (datastore.traits.poolsFrom === "cluster") return stored;
    checkLocalPools(config.ipam.pools);
    const changes = poolChanges(stored, config.ipam.pools);
    for (const { name } of changes) if (!stored.some((pool) => pool.name === name)) isNew.add(name);
    if (stored.length + changes.length === 0) throw noPools(datastore);
    return [...stored, ...changes.filter(({ name }) => isNew.has(name))];
  });

  // Every block of the cluster: only for a node whose own blocks are full.
  const utilisation = once(() => allocator.utilisation());
  const hasRoom = async (pool: IPPool): Promise<boolean> =>
    (await utilisation()).some(({ name, available }) => name === pool.name && available > 0n);
  for (const { family, isOn, entries } of familiesOf(config)) {
    if (!isOn) continue;
    const usable = pools.filter((pool) => isUsable(pool, family, entries));
    if (usable.length === 0)
      throw unavailable(`IPv${family}: no pool for workloads is enabled${entries.length > 0 ? ` among ${entries.join(", ")}` : ""}`);
    if (usable.some(({ name }) => isNew.has(name))) continue;
    const isServed = await unavailableUnless(
      "datastore",
      async () => (await hasOwnRoom(usable, family, services)) || someOf(usable, hasRoom),
    );
    if (!isServed) throw unavailable(`IPv${family}: no address is left in ${usable.map(({ cidr }) => cidr).join(", ")}`);
  }
}

/** Whether a block that the node has already can give an address of these pools. */
async function hasOwnRoom(pools: readonly IPPool[], family: Family, { allocator, datastore, node }: IpamServices): Promise<boolean> {
  const view = allocator.view({ owner: { type: "host", name: node }, mayBeOld: true });
  const places = placedPools(pools);
  for (const { value } of await view.affinities(family)) {
    if (!isInside(places, prefixOf(value.cidr))) continue;
    const block = (await datastore.blocks.get(value.cidr))?.value;
    if (block === undefined || !isOwnedBy(block, value.owner)) continue;
    if (freeOrdinals(block, await view.reservations()).length > 0) return true;
  }
  return false;
}

async function someOf<T>(items: readonly T[], isSo: (item: T) => Promise<boolean>): Promise<boolean> {
  for (const item of items) if (await isSo(item)) return true;
  return false;
}

function familiesOf({ ipam }: NetworkConfig): readonly { family: 4 | 6; isOn: boolean; entries: readonly string[] }[] {
  return [
    { family: 4, isOn: ipam.assignIpv4, entries: ipam.ipv4Pools ?? [] },
    { family: 6, isOn: ipam.assignIpv6, entries: ipam.ipv6Pools ?? [] },
  ];
}

/** Whether an ADD may take workload addresses from the pool (I§3.2); selectors are left to ADD, which knows the namespace. */
function isUsable(pool: IPPool, family: 4 | 6, entries: readonly string[]): boolean {
  if (parsePrefix(pool.cidr)?.address.family !== family || pool.disabled || pool.deleting || pool.allocatable === false) return false;
  if (!pool.allowedUses.includes("Workload")) return false;
  return entries.length === 0
    ? pool.assignmentMode === "Automatic"
    : entries.some((entry) => entry === pool.name || canonical(entry) === pool.cidr);
}

function canonical(cidr: string): string {
  const prefix = parsePrefix(cidr);
  return prefix === undefined ? cidr : formatPrefix(maskPrefix(prefix));
}

async function unavailableUnless<T>(what: string, probe: () => Promise<T>): Promise<T> {
  try {
    return await probe();
  } catch (error) {
    throw unavailable(`${what}: ${messageOf(error)}`, error);
  }
}

function unavailable(message: string, cause?: unknown): TortieError {
  return new TortieError("status-unavailable", message, { cause });
}
