/**
 * Gives a call what this host can do for it: its datastore, its kernel, its IPAM. An executable builds one and throws it away with its
 * process; a process that serves many calls keeps it. Nothing in here belongs to one call.
 */

import { resolve } from "node:path";
import type { Dataplane, NodeState } from "../dataplane/dataplane.ts";
import { LinuxDataplane } from "../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../dataplane/netlink/host-sockets.ts";
import { runDirectoryOf } from "../handover/run-directory.ts";
import { createIpamHost, type IpamHost } from "../ipam-plugin/host.ts";
import { hostScopeFiles } from "../ipam-plugin/host-scope/files.ts";
import type { HostScope } from "../ipam-plugin/host-scope/host-scope.ts";
import { type Address, formatPrefix, type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { Datastore, KubernetesCore } from "../lib/datastore/datastore.ts";
import { openDatastore } from "../lib/datastore/open.ts";
import type { IPPool } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Logger } from "../lib/log/logger.ts";
import { isThere } from "../lib/system/files.ts";
import { sha256 } from "../lib/system/hash.ts";
import { guardedPrefixes } from "../lib/workload/names.ts";
import type { NetworkCall } from "./call.ts";

export interface Host extends AsyncDisposable {
  readonly dataplane: Dataplane;
  /** Opens the datastore of the configuration at first use. */
  datastore(): Promise<Datastore>;
  /** Reads pods, namespaces and nodes over the datastore's connection; `undefined` where that does not lead to a Kubernetes API server. */
  core(): Promise<KubernetesCore | undefined>;
  /** Makes the part of the host that the IPAM plugin needs when it is served in this process. */
  ipam(): Promise<IpamHost>;
  /** Opens the node's own ranges, for `ipam.type` tortie-host-scope; the agent that finds out about them need not be there. */
  hostScope(): Promise<HostScope>;
  /** Lists router addresses of this node, the gateways of links of form `endpoint` (A§3.5). @throws TortieError `node-cidr-missing` */
  routers(): Promise<readonly Address[]>;
  /** Says what this node must hold for an attachment with these addresses, where there is no Felix. */
  state(call: Pick<NetworkCall, "env">, addresses: readonly Prefix[]): Promise<NodeState>;
}

/** What a process that lives on puts in the place of the parts of its own making. */
export interface HostParts {
  readonly dataplane?: Dataplane;
  /** @param onDamaged is called with each object that a list leaves out because it cannot be read */
  readonly openDatastore?: typeof openDatastore;
  readonly createIpamHost?: typeof createIpamHost;
  readonly hostScope?: () => HostScope;
  /** Path of the node's record. */
  readonly nodeRecord?: () => string;
  /** The node's own ranges as far as they are known, without asking for more. */
  readonly knownRanges?: () => readonly Prefix[];
}

/** @param log gets a line for each object that a list leaves out because it cannot be read */
export function createHost(config: NetworkConfig, env: Environment, log: Pick<Logger, "error">, parts: HostParts = {}): Host {
  const open = parts.openDatastore ?? openDatastore;
  const makeIpamHost = parts.createIpamHost ?? createIpamHost;
  let opened: Promise<Datastore> | undefined;
  const datastore = (): Promise<Datastore> => {
    opened ??= open(config, env, ({ message }) => log.error(`stored object: ${message}`)).catch((error: unknown) => {
      // What stands in the way may be gone at the next call.
      opened = undefined;
      throw error;
    });
    return opened;
  };
  // Opens nothing before the kernel is asked.
  const sockets = new HostSockets();
  const files = hostScopeFiles(runDirectoryOf(config.agent.socket ?? (env.TORTIE_SOCK || undefined)).path);
  const hostScope = async (): Promise<HostScope> => {
    if (parts.hostScope !== undefined) return parts.hostScope();
    // Loaded only where it is used: a process that lives for one call pays for each module.
    const { openHostScope } = await import("../ipam-plugin/host-scope/open.ts");
    return openHostScope(files);
  };
  return {
    dataplane: parts.dataplane ?? new LinuxDataplane(sockets),
    datastore,
    core: async () => (await datastore()).core,
    ipam: async () => makeIpamHost({ datastore: await datastore(), log }),
    hostScope,
    async routers() {
      const { routersOf } = await import("../ipam-plugin/host-scope/node-record.ts");
      return routersOf(parts.nodeRecord?.() ?? files.nodeRecord);
    },
    async state(call, addresses) {
      const pools = (await (await datastore()).pools.list()).map(({ value }) => value);
      const ranges = parts.knownRanges?.() ?? (isThere(files.nodeRecord) ? (await hostScope()).knownRanges() : []);
      return nodeStateOf(call, storeName(config, env), addresses, [
        ...pools,
        ...ranges.map((range) => ({ cidr: formatPrefix(range), natOutgoing: true })),
      ]);
    },
    async [Symbol.asyncDispose]() {
      using _ = sockets;
      await (await opened)?.[Symbol.asyncDispose]();
    },
  };
}

/** Of the digest in a datastore's name. */
const DIGITS = 12;

/**
 * Makes the node forward the families of the addresses, masquerade as the pools' `natOutgoing` says, and keep containers away from its
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
 * Names a datastore in the node's table: the same for each process that uses the same one, agent or plugin, and a different one for each of
 * two that use different ones. A node is in one cluster, whatever the address of its API server is written like.
 * @throws TortieError `netconf-value`
 */
export function storeName(config: NetworkConfig, env: Environment): string {
  const type = chooseDatastore(config, env);
  if (type === "kubernetes") return type;
  const { endpoints, discoverySrv } = config.etcd;
  const place =
    type === "local" ? resolve(config.datastorePath) : [env.CALICO_ETCD_ENDPOINTS || endpoints || env.ETCD_ENDPOINTS, discoverySrv];
  return type + sha256(JSON.stringify(place)).slice(0, DIGITS);
}

function prefixOf(cidr: string): Prefix {
  const prefix = parsePrefix(cidr);
  if (prefix === undefined) throw new TortieError("nat-failed", `pool "${cidr}" is not a CIDR`);
  return prefix;
}
