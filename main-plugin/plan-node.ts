/** What a node must hold for its attachments where there is no Felix: a pure decision, like the plan of an attachment. */
import { resolve } from "node:path";
import type { NodeState } from "../dataplane/node-state.ts";
import { type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { guardedPrefixes } from "../lib/workload/interface-names.ts";
import type { NetworkCall } from "./call.ts";

/** Of the digest in a datastore's name. */
const DIGITS = 12;

/**
 * The node forwards the families of the addresses, masquerades as the pools' `natOutgoing` says, and keeps containers away from its
 * loopback.
 * @param store `storeName` of the pools' datastore
 * @throws TortieError `nat-failed`, `interface-prefix-invalid`
 */
export function nodeStateOf(
  { env }: Pick<NetworkCall, "env">,
  store: string,
  addresses: readonly Prefix[],
  pools: readonly Pick<IPPool, "cidr" | "natOutgoing">[],
): NodeState {
  return {
    forwardedFamilies: [...new Set(addresses.map(({ address }) => address.family))],
    masquerading: {
      store,
      outgoing: pools.filter(({ natOutgoing }) => natOutgoing).map(({ cidr }) => prefixOf(cidr)),
      pools: pools.map(({ cidr }) => prefixOf(cidr)),
    },
    guardedPrefixes: guardedPrefixes(env.FELIX_INTERFACEPREFIX),
  };
}

/**
 * The name of a datastore in the node's table: the same for each process that uses the same one, agent or plugin, and for each of
 * two that use different ones another. A node is in one cluster, whatever the address of its API server is written like.
 * @throws TortieError `netconf-value`
 */
export function storeName(config: NetworkConfig, env: Environment): string {
  const type = chooseDatastore(config, env);
  if (type === "kubernetes") return type;
  const { endpoints, discoverySrv } = config.etcd;
  const place =
    type === "local" ? resolve(config.datastorePath) : [env.CALICO_ETCD_ENDPOINTS || endpoints || env.ETCD_ENDPOINTS, discoverySrv];
  return type + new Bun.CryptoHasher("sha256").update(JSON.stringify(place)).digest("hex").slice(0, DIGITS);
}

function prefixOf(cidr: string): Prefix {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new TortieError("nat-failed", `pool "${cidr}" is not a CIDR`);
  return prefix;
}
