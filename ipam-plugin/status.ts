/**
 * Serves IPAM STATUS: does this node's configuration let an ADD get addresses? Changes nothing.
 *
 * Runtimes ask every few seconds, and a failure makes the whole node NotReady. So it fails (code 50) only for what every ADD on this
 * node fails of until the configuration is corrected. Full pools and a store that does not answer are lines of the log: the pods that
 * run need no new address (design, invariant 12). Lists come from memory, and blocks are never listed.
 */
import { type Family, parsePrefix } from "../lib/addresses/address.ts";
import { checkPolicyType } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { canonicalCidr } from "../lib/datastore/calico/pool.ts";
import { DatastoreError } from "../lib/datastore/errors.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Operation } from "./allocator/allocator.ts";
import { freeOrdinals, isOwnedBy, prefixOf } from "./allocator/block.ts";
import { allows, isInside, usable as placedPools } from "./allocator/pools.ts";
import type { IpamCall } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { checkPoolsKey, noPools, poolsToBe } from "./pools-from-config.ts";

/** @throws TortieError `status-unavailable` */
export async function ipamStatus({ config, nodeName, log, datastore: type }: IpamCall, host: IpamHost): Promise<void> {
  const { datastore } = host;
  const isAlone = datastore.traits.poolsFrom === "netconf";
  await unavailableUnless("configuration", () => {
    checkPolicyType(config, type);
    checkPoolsKey(config, datastore);
  });
  try {
    const operation = beginLooking(nodeName, host);
    const stored = await operation.pools();
    const pools = isAlone ? await unavailableUnless("pools", () => poolsOfConfig(stored, config, host)) : stored;
    for (const { message } of await findingsIn(config, host, operation, pools)) log.error(`an ADD may fail: ${message}`);
  } catch (error) {
    // The file of a node that is alone does not come back by itself.
    if (!(error instanceof DatastoreError)) throw error;
    if (isAlone) throw unavailable("datastore", error);
    log.error(`no ADD can be served now: ${messageOf(error)}`);
  }
}

/** Returns the pools as the next ADD makes them. @throws TortieError what that ADD would fail of, whatever pod it is for */
function poolsOfConfig(stored: readonly IPPool[], config: NetworkConfig, { datastore }: IpamHost): readonly IPPool[] {
  const pools = poolsToBe(stored, config);
  if (pools.length === 0) throw noPools(datastore);
  for (const wanted of wantedFamilies(config)) {
    if (pools.some((pool) => isMeant(pool, wanted))) continue;
    const named = wanted.entries.length > 0 ? `: ${wanted.entries.join(", ")}` : "";
    throw new TortieError("pool-missing", `IPv${wanted.family}: there is no such pool${named}`);
  }
  return pools;
}

/** Gives what the probe finds. @throws TortieError `status-unavailable` when it fails */
export async function unavailableUnless<T>(what: string, probe: () => T | Promise<T>): Promise<T> {
  try {
    return await probe();
  } catch (error) {
    throw unavailable(what, error);
  }
}

export function unavailable(what: string, cause: unknown): TortieError {
  return new TortieError("status-unavailable", `${what}: ${messageOf(cause)}`, { cause });
}

/**
 * Says what stands in the way of the next ADD although the configuration is right: pools that are full or disabled, a store that is paused or
 * does not answer. STATUS writes it into the log, `tortiectl cni status` shows it.
 */
export interface Finding {
  readonly kind: "pool-missing" | "exhausted" | "paused" | "unreachable";
  readonly message: string;
  /** What kept the datastore from answering. */
  readonly error?: DatastoreError;
}

/** Describes a family that the configuration switches on, and the pools that it names. */
interface WantedFamily {
  readonly family: Family;
  readonly entries: readonly string[];
}

export function wantedFamilies({ ipam }: Pick<NetworkConfig, "ipam">): readonly WantedFamily[] {
  const families = [
    { family: 4, isOn: ipam.assignIpv4, entries: ipam.ipv4Pools ?? [] },
    { family: 6, isOn: ipam.assignIpv6, entries: ipam.ipv6Pools ?? [] },
  ] as const;
  return families.filter(({ isOn }) => isOn);
}

/** Tells whether the configuration means the pool: of the family, and named if any is named. */
export function isMeant(pool: IPPool, { family, entries }: WantedFamily): boolean {
  if (parsePrefix(pool.cidr)?.address.family !== family) return false;
  return entries.length === 0 || entries.some((entry) => entry === pool.name || canonicalCidr(entry) === pool.cidr);
}

/** Says whose next ADD it is about, without a request yet. */
type FindingsCall = Pick<IpamCall, "config" | "nodeName">;

/** Finds what a person wants to know, at the price of a list of all blocks. */
export async function ipamFindings({ config, nodeName }: FindingsCall, host: IpamHost): Promise<readonly Finding[]> {
  const { allocator, datastore } = host;
  try {
    const information = await datastore.clusterInformation.get("default");
    const isPaused = information?.value.datastoreReady === false;
    const operation = beginLooking(nodeName, host);
    const stored = await operation.pools();
    const pools = datastore.traits.poolsFrom === "netconf" ? poolsToBe(stored, config) : stored;
    const utilisation = await allocator.utilisation();
    // A pool that is not stored yet is empty.
    const isFull = ({ name }: IPPool) => utilisation.some((pool) => pool.name === name && pool.available === 0n);
    const found = await findingsIn(config, host, operation, pools, isFull);
    return [...(isPaused ? [{ kind: "paused", message: "ClusterInformation says datastoreReady: false" } as const] : []), ...found];
  } catch (error) {
    if (error instanceof DatastoreError) return [{ kind: "unreachable", message: error.message, error }];
    throw error;
  }
}

/**
 * @param pools those that are there when an ADD looks for addresses
 * @param isFull whether no node has an address left in the pool; absent: the node's own blocks alone are looked at
 */
export async function findingsIn(
  config: Pick<NetworkConfig, "ipam">,
  host: Pick<IpamHost, "datastore">,
  operation: Operation,
  pools: readonly IPPool[],
  isFull?: (pool: IPPool) => boolean,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const wanted of wantedFamilies(config)) {
    const { family, entries } = wanted;
    const enabled = pools.filter((pool) => isMeant(pool, wanted) && isEnabled(pool, entries));
    if (enabled.length === 0) {
      const among = entries.length > 0 ? ` among ${entries.join(", ")}` : "";
      findings.push({ kind: "pool-missing", message: `IPv${family}: no pool for workloads is enabled${among}` });
      continue;
    }
    const own = await ownRoom(enabled, family, host, operation);
    if (isFull === undefined ? own !== "full" : own === "free" || !enabled.every(isFull)) continue;
    const where = isFull === undefined ? "this node's blocks of " : "";
    findings.push({
      kind: "exhausted",
      message: `IPv${family}: no address is left in ${where}${enabled.map(({ cidr }) => cidr).join(", ")}`,
    });
  }
  return findings;
}

/** Begins an operation that only looks: lists from memory will do. */
function beginLooking(nodeName: string, { allocator }: Pick<IpamHost, "allocator">): Operation {
  return allocator.begin({ owner: { type: "host", name: nodeName }, mayBeOld: true });
}

/** Tells whether the blocks that the node has in these pools can give an address; "none" when it has no block. */
async function ownRoom(
  pools: readonly IPPool[],
  family: Family,
  { datastore }: Pick<IpamHost, "datastore">,
  operation: Operation,
): Promise<"free" | "full" | "none"> {
  const places = placedPools(pools);
  let room: "full" | "none" = "none";
  for (const { value } of await operation.affinities(family)) {
    if (!isInside(places, prefixOf(value.cidr))) continue;
    const block = (await datastore.blocks.get(value.cidr))?.value;
    if (block === undefined || !isOwnedBy(block, value.owner)) continue;
    if (freeOrdinals(block, await operation.reservations()).length > 0) return "free";
    room = "full";
  }
  return room;
}

/** Tells whether an ADD may take workload addresses from the pool (I§3.2); selectors are left to ADD, which knows the namespace. */
function isEnabled(pool: IPPool, entries: readonly string[]): boolean {
  if (pool.disabled || pool.deleting || pool.allocatable === false || !allows(pool, "Workload")) return false;
  return entries.length > 0 || pool.assignmentMode === "Automatic";
}
