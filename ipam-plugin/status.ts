/**
 * IPAM STATUS: does this node's configuration let an ADD get addresses? Changes nothing.
 *
 * Runtimes ask every few seconds, and a failure makes the whole node NotReady. So it fails (code 50) only for what every ADD on this
 * node fails of until the configuration is corrected. Full pools and a store that does not answer are lines of the log: the pods that
 * run need no new address (design, invariant 12). Lists come from memory, and blocks are never listed.
 */
import { checkPolicyType } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { DatastoreError } from "../lib/datastore/errors.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { IpamCall } from "./call.ts";
import { beginLooking, findingsIn, isMeant, wantedFamilies } from "./findings.ts";
import type { IpamNode } from "./node.ts";
import { checkPoolsKey, noPools, poolsToBe } from "./pools-from-config.ts";

/** @throws TortieError `status-unavailable` */
export async function ipamStatus({ config, nodeName, log, datastore: type }: IpamCall, node: IpamNode): Promise<void> {
  const { datastore } = node;
  const isAlone = datastore.traits.poolsFrom === "netconf";
  await unavailableUnless("configuration", () => {
    checkPolicyType(config, type);
    checkPoolsKey(config, datastore);
  });
  try {
    const operation = beginLooking(nodeName, node);
    const stored = await operation.pools();
    const pools = isAlone ? await unavailableUnless("pools", () => poolsOfConfig(stored, config, node)) : stored;
    for (const { message } of await findingsIn(config, node, operation, pools)) log.error(`an ADD may fail: ${message}`);
  } catch (error) {
    // The file of a node that is alone does not come back by itself.
    if (!(error instanceof DatastoreError)) throw error;
    if (isAlone) throw unavailable("datastore", error);
    log.error(`no ADD can be served now: ${messageOf(error)}`);
  }
}

/** The pools as the next ADD makes them. @throws TortieError what that ADD would fail of, whatever pod it is for */
function poolsOfConfig(stored: readonly IPPool[], config: NetworkConfig, { datastore }: IpamNode): readonly IPPool[] {
  const pools = poolsToBe(stored, config);
  if (pools.length === 0) throw noPools(datastore);
  for (const wanted of wantedFamilies(config)) {
    if (pools.some((pool) => isMeant(pool, wanted))) continue;
    const named = wanted.entries.length > 0 ? `: ${wanted.entries.join(", ")}` : "";
    throw new TortieError("pool-missing", `IPv${wanted.family}: there is no such pool${named}`);
  }
  return pools;
}

async function unavailableUnless<T>(what: string, probe: () => T): Promise<T> {
  try {
    return probe();
  } catch (error) {
    throw unavailable(what, error);
  }
}

function unavailable(what: string, cause: unknown): TortieError {
  return new TortieError("status-unavailable", `${what}: ${messageOf(cause)}`, { cause });
}
