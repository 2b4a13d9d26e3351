/** Starts routes between nodes. Loaded only where `--node-routes` asks for them. */

import { NO_NODE_STATE, type NodeState } from "../../dataplane/dataplane.ts";
import { hasFelixChains, type NetworkFacts, readNetworkFacts } from "../../dataplane/linux/host-facts.ts";
import { listenToChanges } from "../../dataplane/linux/kernel-changes.ts";
import { createIpamHost } from "../../ipam-plugin/host.ts";
import { familyOf, type NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { bitsOf, type Family, formatPrefix, maskPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { MTU_FILE } from "../../lib/config/node-name.ts";
import { configuredGroup } from "../../lib/datastore/calico/codec.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import type { CheckResult } from "../../lib/resident/health.ts";
import { directoryOf, isThere, makeDirectories, readText } from "../../lib/system/files.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";
import { guardedPrefixes } from "../../lib/workload/names.ts";
import { nodeStateOf, storeName } from "../../main-plugin/host.ts";
import type { Hosts } from "../../main-plugin/hosts.ts";
import type { NodeCidr } from "../addresses/ranges/node-cidr.ts";
import { clusterCidrsOf } from "../addresses/ranges/options.ts";
import { datastoreKeys } from "../start/configuration.ts";
import type { AgentContext } from "../start/context.ts";
import { followKernel } from "./follow-kernel.ts";
import { KubernetesSources } from "./kubernetes-sources.ts";
import { type ByFamily, type ClusterView, FAMILIES, type TunnelEnd } from "./model.ts";
import type { RoutesStatus } from "./node-routes.ts";
import { FELIX_DEVICES, FELIX_ROUTE_PROTOCOL, NodeRoutes, type NodeRoutesParts } from "./node-routes.ts";
import { OwnTunnels } from "./own-tunnels.ts";
import { proveByBlocks, proveByRanges } from "./proofs.ts";

const NAME = "node-routes";
/** For changes in the kernel that no notification tells of (A§8.1). */
const INTERVAL_MS = 60_000;
const MTU_MODE = 0o644;
const DIRECTORY_MODE = 0o755;

export interface AgentRoutes {
  /** Ranges of all nodes, where addresses come from ranges. */
  readonly ranges: () => readonly Prefix[];
}

interface RoutedParts {
  readonly hosts: Hosts;
  /** This node's own ranges and addresses (host scope). */
  readonly nodeCidr: Pick<NodeCidr, "record">;
}

/** Returns when the node is guarded: the first ADD comes after that. */
export async function startNodeRoutes(context: AgentContext, parts: RoutedParts): Promise<AgentRoutes> {
  const { options, env, node, cluster, controllers, health, log } = context;
  if (cluster?.isDatastore !== true) {
    const finding = "--node-routes needs a cluster: with this datastore the agent knows of no other nodes, and makes no routes";
    log.error(finding);
    health.health.find(NAME, finding);
    return { ranges: () => [] };
  }
  const config = decodeNetworkConfig({ name: "tortie-node", nodename: node, ...datastoreKeys(options) });
  const addressing = options.ipam === "host-scope" ? "ranges" : "blocks";
  const { connection, informers, pools, blocks } = cluster;
  const sources = new KubernetesSources({ connection, informers, pools, blocks, node, addressing, group: configuredGroup(config, env) });
  const guard = () => guardNode(context);
  // Each look at the routes tries again; an agent that cannot guard still serves.
  await guard().catch((error: unknown) => log.error(`the node is not guarded: ${messageOf(error)}`));
  const byAddressing = addressing === "blocks" ? byBlocks(context, config) : byRanges(context, config, parts);
  const routes = new NodeRoutes({
    node,
    mayTunnel: options["node-routes"] === "vxlan",
    sources,
    facts: () => readNetworkFacts(context.host, FELIX_ROUTE_PROTOCOL, FELIX_DEVICES),
    ...byAddressing,
    guard,
    applyNode: (state) => context.dataplane.applyNode(state),
    onMtu: writeMtu,
    onDrift: (changed) => health.metrics.sweepFound("drift", changed.length),
    clock: SYSTEM_CLOCK,
    log,
  });
  health.health.add({ name: NAME, decides: "shown", look: () => checkOf(routes.status) });
  controllers.update(NAME, { run: (signal) => routes.run(signal), intervalMs: INTERVAL_MS, quiet: true });
  const look = () => controllers.trigger(NAME);
  sources.onChange(look);
  followKernel({ listen: (listener) => listenToChanges(context.host, listener), look, controllers, clock: SYSTEM_CLOCK, log });
  return { ranges: () => (addressing === "ranges" ? routes.proven.pools.map(({ cidr }) => cidr) : []) };
}

/** Keeps packets of strangers from pods' addresses before there are any, where Felix does not. */
async function guardNode({ env, host, dataplane }: AgentContext): Promise<void> {
  if (hasFelixChains(host)) return;
  const names = (await dataplane.list()).flatMap(({ hostInterface, owner }) => (owner === undefined ? [] : [hostInterface]));
  await dataplane.applyNode({ ...NO_NODE_STATE, guardedPrefixes: guardedPrefixes(env.FELIX_INTERFACEPREFIX, names) });
}

type ByAddressing = Pick<NodeRoutesParts, "prove" | "tunnels" | "giveBackTunnels" | "state">;

/** Sets up routes where addresses come from blocks: a block's allocation proves a claim, and tunnel addresses are allocated. */
function byBlocks({ env, log }: AgentContext, config: NetworkConfig): ByAddressing {
  const tunnels = new OwnTunnels((work) => withAllocator(config, env, log, work), SYSTEM_CLOCK);
  return {
    prove: (claims) => proveByBlocks(claims),
    tunnels: (routed, view, underlay, failed) => tunnels.ends(routed, view, underlay, failed),
    giveBackTunnels: (routed) => tunnels.giveBack(routed),
    state: async (view) => stateOf(view, storeName(config, env), env),
  };
}

/**
 * Sets up routes where addresses come from the nodes' ranges: what else lies in the cluster's proves a claim, and routers' ends are fixed.
 */
function byRanges({ options, env, node }: AgentContext, config: NetworkConfig, { hosts, nodeCidr }: RoutedParts): ByAddressing {
  const clusterCidrs = clusterCidrsOf(options["cluster-cidr"]);
  return {
    prove: (claims, { addresses }) =>
      proveByRanges(claims, { own: { name: node, ranges: rangesOf(nodeCidr.record) }, subnets: subnetsOf(addresses), clusterCidrs }),
    tunnels: async (_routed, { pools }) => (pools.length === 0 ? {} : routerEnds(nodeCidr.record)),
    giveBackTunnels: async () => undefined,
    // With links of form `endpoint` each ADD applies the node's state too: both must come to the same. A cluster of host scope alone may
    // have no pools to read.
    state: (view) =>
      hosts
        .of(config, env)
        .state(
          { env },
          view.pools.map(({ cidr }) => cidr),
        )
        .catch(() => stateOf(view, storeName(config, env), env)),
  };
}

function stateOf(view: ClusterView, store: string, env: Environment): NodeState {
  const pools = view.pools.map(({ cidr, natOutgoing }) => ({ cidr: formatPrefix(cidr), natOutgoing }));
  return nodeStateOf(
    { env },
    store,
    view.pools.map(({ cidr }) => cidr),
    pools,
  );
}

/** Opens the store for the few times that a tunnel address is allocated or given back. */
async function withAllocator<T>(
  config: NetworkConfig,
  env: Environment,
  log: Pick<AgentLog, "error">,
  work: (allocator: ReturnType<typeof createIpamHost>["allocator"]) => Promise<T>,
): Promise<T> {
  await using datastore = await openDatastore(config, env);
  return await work(createIpamHost({ datastore, log }).allocator);
}

function rangesOf(record: NodeRecord | undefined): readonly Prefix[] {
  return record === undefined ? [] : FAMILIES.flatMap((family) => familyOf(record, family)?.cidr ?? []);
}

/** Lists the subnets of this node. A single address has no neighbours. */
function subnetsOf(addresses: NetworkFacts["addresses"]): readonly Prefix[] {
  return addresses.filter(({ address, length }) => length < bitsOf(address.family)).map(maskPrefix);
}

function routerEnds(record: NodeRecord | undefined): ByFamily<TunnelEnd> {
  const ends: Partial<Record<Family, TunnelEnd>> = {};
  for (const family of FAMILIES) {
    const address = record && familyOf(record, family)?.router;
    if (address !== undefined) ends[family] = { address };
  }
  return ends;
}

/** Plugins give new pods this MTU unless their configuration names one (C§1.6). Without Felix no other program writes the file. */
function writeMtu(mtu: number): void {
  const text = String(mtu);
  if (isThere(MTU_FILE) && readText(MTU_FILE).trim() === text) return;
  makeDirectories(directoryOf(MTU_FILE), DIRECTORY_MODE);
  writeWhole(MTU_FILE, text, MTU_MODE);
}

function checkOf(status: RoutesStatus): CheckResult {
  switch (status.kind) {
    case "waiting":
      return {
        state: "warning",
        message: `nothing is changed: ${status.cause}`,
        next: "routes that are there stay; see whether this node reaches the API server, and has a Node object",
      };
    case "stood-down":
      return {
        state: "warning",
        message: `Felix makes the routes, this agent does not: there are ${status.sign}`,
        next: "set --node-routes off beside Felix; where Felix is gone, remove what it left (docs/how-to/connect-nodes.md)",
      };
    case "working":
      if (status.problems.length === 0) return { state: "ok", message: status.message };
      return { state: "warning", message: `${status.message}; ${status.problems.join("; ")}`, next: "see docs/reference/routes.md" };
  }
}
