/** Makes the pools of the local datastore by `ipam.pools` of the network configuration: made at first use, never bent silently. */

import { overlaps, parsePrefix } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { LocalPool } from "../lib/config/ipam-section.ts";
import { checkLocalPools } from "../lib/config/ipam-section.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";

/**
 * Makes the datastore's pools what the configuration says; one read when they are so already. A datastore whose pools come from
 * elsewhere is left alone.
 *
 * @throws TortieError `netconf-value`, `pool-conflict`, `pool-missing` without any pool
 */
export async function ensurePools(config: Pick<NetworkConfig, "ipam">, datastore: Datastore): Promise<void> {
  checkPoolsKey(config, datastore);
  if (datastore.traits.poolsFrom === "cluster") return;
  const wanted = config.ipam.pools;
  const stored = (await datastore.pools.list()).map(({ value }) => value);
  if (stored.length === 0 && wanted.length === 0) throw noPools(datastore);
  if (poolChanges(stored, wanted).length > 0) await datastore.pools.reconcile?.((now) => poolChanges(now, wanted));
}

/** Checks what is wrong with the key whatever is stored. @throws TortieError `netconf-value` */
export function checkPoolsKey({ ipam }: Pick<NetworkConfig, "ipam">, datastore: Datastore): void {
  if (datastore.traits.poolsFrom === "netconf") checkLocalPools(ipam.pools);
  else if (ipam.pools.length > 0) {
    throw new TortieError(
      "netconf-value",
      `ipam.pools only works with the local datastore; the pools of ${datastore.description} are its own`,
    );
  }
}

/** Returns the pools that are there once `ensurePools` is done. @throws TortieError `pool-conflict` */
export function poolsToBe(stored: readonly IPPool[], { ipam }: Pick<NetworkConfig, "ipam">): readonly IPPool[] {
  return [...stored, ...poolChanges(stored, ipam.pools).filter(({ name }) => !stored.some((pool) => pool.name === name))];
}

/** Calico's words for an allocation without any pool (I§1.10), and the way out that only this datastore has. */
export function noPools(datastore: Datastore): TortieError {
  return new TortieError(
    "pool-missing",
    `cannot find a qualified ippool: ${datastore.description} has no pools, and ipam.pools is not set`,
  );
}

/**
 * Returns the pools to store, new or changed, so that the stored ones are as wanted. Stored pools that are not wanted stay: addresses of
 * theirs may be in use.
 *
 * @throws TortieError `pool-conflict` when that would mean to change a pool's CIDR, block size or name
 */
export function poolChanges(stored: readonly IPPool[], wanted: readonly LocalPool[]): readonly IPPool[] {
  const changes: IPPool[] = [];
  for (const pool of wanted) {
    const same = stored.find(({ name }) => name === pool.name);
    if (same === undefined) {
      const rival = stored.find((other) => overlap(other.cidr, pool.cidr));
      if (rival !== undefined) throw conflict(pool, rival);
      changes.push(newPool(pool));
      continue;
    }
    if (same.cidr !== pool.cidr || same.blockSize !== pool.blockSize) throw conflict(pool, same);
    if (same.natOutgoing !== pool.natOutgoing) changes.push({ ...same, natOutgoing: pool.natOutgoing });
  }
  return changes;
}

function newPool({ name, cidr, blockSize, natOutgoing }: LocalPool): IPPool {
  return {
    name,
    cidr,
    blockSize,
    natOutgoing,
    disabled: false,
    nodeSelector: "all()",
    namespaceSelector: "",
    allowedUses: ["Workload", "Tunnel"],
    assignmentMode: "Automatic",
    deleting: false,
  };
}

function conflict(wanted: LocalPool, stored: IPPool): TortieError {
  return new TortieError(
    "pool-conflict",
    `ipam.pools wants ${describe(wanted)}, which contradicts ${describe(stored)} in the datastore: a pool cannot change while it is there`,
  );
}

function describe(pool: Pick<IPPool, "name" | "cidr" | "blockSize">): string {
  return `pool "${pool.name}" ${pool.cidr} with blocks of /${pool.blockSize}`;
}

function overlap(one: string, other: string): boolean {
  const [a, b] = [parsePrefix(one), parsePrefix(other)];
  return a !== undefined && b !== undefined && overlaps(a, b);
}
