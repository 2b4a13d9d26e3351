/**
 * Runs `tortie-ipam -upgrade` (I§7). Where TORTIE_UPGRADE_CONFLIST names a network configuration (list) with the local datastore, the
 * containers that host-local gave addresses on this node get them in its pools. Without it a Kubernetes node is meant, as in Calico: pods
 * and the node come from the Kubernetes API, ClusterInformation from one of Calico's two groups, and the plugins' directory of the node is
 * mounted below /host.
 */

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../lib/cni/protocol.ts";
import { configOfConflist } from "../../lib/config/conflist.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import { type ApiGroup, configuredGroup, discoverGroup } from "../../lib/datastore/calico/codec.ts";
import { kubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { failureOf, listPages } from "../../lib/datastore/kubernetes/resource-api.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type Fields, parseObject, section, text } from "../../lib/json/decode.ts";
import type { ApiClient, ApiRequest } from "../../lib/kubernetes/api-client.ts";
import { openApiClient } from "../../lib/kubernetes/client/client.ts";
import { decodePod, metadataOf, type Pod } from "../../lib/kubernetes/objects.ts";
import { isFinished } from "../../lib/workload/annotations/pod-addresses.ts";
import { Allocator } from "../allocator/allocator.ts";
import { systemClock } from "../host.ts";
import { ensurePools } from "../pools-from-config.ts";
import { openHostLocalDirectory } from "./host-local-directory.ts";
import { type UpgradeCluster, type Upgraded, upgrade, upgradeUntilDone } from "./upgrade.ts";

/** Holds host-local's networks unless its `dataDir` says otherwise. */
const HOST_LOCAL_NETWORKS = "/var/lib/cni/networks";

/**
 * @param tell gets what a person should know before the end
 * @returns what was done, in words
 * @throws TortieError what `upgrade` and `upgradeNode` throw, `conflist-unreadable`, `conflist-invalid`
 */
export async function upgradeFromHostLocal(env: Environment, tell: (message: string) => void): Promise<string> {
  const conflist = env.TORTIE_UPGRADE_CONFLIST ?? "";
  const { done, directory, datastore } = conflist === "" ? await upgradeNode(env, tell) : await upgradeLocal(conflist, env, tell);
  return report(done, directory, datastore);
}

async function upgradeLocal(conflist: string, env: Environment, tell: (message: string) => void): Promise<UpgradedNode> {
  const config = configOfConflist(conflist);
  const type = chooseDatastore(config, env);
  if (type !== "local") {
    throw new TortieError("conflist-invalid", `${conflist}: the datastore is ${type}, and TORTIE_UPGRADE_CONFLIST is for the local one`, {
      next: "in a cluster leave TORTIE_UPGRADE_CONFLIST away, and set KUBERNETES_NODE_NAME",
    });
  }
  const directory = openHostLocalDirectory(env.TORTIE_HOST_LOCAL_DIR || `${HOST_LOCAL_NETWORKS}/${config.name}`);
  await using datastore = await openDatastore(config, env);
  await ensurePools(config, datastore);
  const log = { info: (_message: string) => {}, error: tell };
  const done = await upgrade({
    node: nodeName(config),
    network: config.name,
    allocator: new Allocator({ datastore, clock: systemClock }),
    directory,
    sleep: Bun.sleep,
    log,
  });
  return { done, directory: directory.path, datastore: datastore.description };
}

function report({ moved, dropped, contested }: Upgraded, path: string, datastore: string): string {
  const lines = [
    `${path}: ${moved.length} addresses moved into ${datastore}`,
    ...moved.map((address) => `  ${address}`),
    ...(dropped.length === 0 ? [] : [`without container, dropped: ${dropped.join(", ")}`]),
    ...(contested.length === 0 ? [] : [`belong to others in the datastore, look at standard error: ${contested.join(", ")}`]),
  ];
  return `${lines.join("\n")}\n`;
}

/** Begins the handles, whatever the network was called (I§7). */
const NETWORK = "k8s-pod-network";
const HOST_LOCAL_DIRECTORY = `/var/lib/cni/networks/${NETWORK}`;
const PLUGIN_DIRECTORY = "/host/opt/cni/bin";

interface UpgradedNode {
  readonly done: Upgraded;
  readonly directory: string;
  readonly datastore: string;
}

/**
 * Upgrades a Kubernetes node, in an init container with the node's directories. All it knows comes from the environment:
 * KUBERNETES_NODE_NAME, and where the API server is (C§1.4).
 *
 * Comes back when it is done, however often it has to try: `tell` gets each failure.
 *
 * @throws TortieError `environment-missing`, and what a configuration that leads to no API server throws
 */
async function upgradeNode(environment: Environment, tell: (message: string) => void): Promise<UpgradedNode> {
  const node = environment.KUBERNETES_NODE_NAME ?? "";
  if (node === "") {
    throw new TortieError("environment-missing", "KUBERNETES_NODE_NAME is not set, nor is TORTIE_UPGRADE_CONFLIST", {
      next: "in a cluster set KUBERNETES_NODE_NAME to the name of the node; elsewhere TORTIE_UPGRADE_CONFLIST to the network configuration",
    });
  }
  const directory = openHostLocalDirectory(environment.TORTIE_HOST_LOCAL_DIR || HOST_LOCAL_DIRECTORY);
  const env = { ...environment, CALICO_DATASTORE_TYPE: "kubernetes" };
  const config = decodeNetworkConfig({ datastore_type: "kubernetes" });
  const client = openApiClient(config, env);
  const group = configuredGroup(config, env) ?? (await discoverGroup(client));
  await using datastore = kubernetesDatastore(client, { group });
  const done = await upgradeUntilDone({
    node,
    network: NETWORK,
    allocator: new Allocator({ datastore, clock: systemClock }),
    directory,
    cluster: kubernetesCluster({ client, group, node, pluginDirectory: environment.TORTIE_CNI_BIN_DIR || PLUGIN_DIRECTORY }),
    sleep: Bun.sleep,
    log: { info: tell, error: tell },
  });
  return { done, directory: directory.path, datastore: datastore.description };
}

/** Holds the address of calico-node's IPIP tunnel: an annotation of the Kubernetes node, in both groups. */
const TUNNEL_ADDRESS = "projectcalico.org/IPv4IPIPTunnelAddr";
/** Annotates ClusterInformation: names of the nodes that move addresses, so that the first to end does not let the cluster go on. */
const PAUSING_NODES = "tortie-upgrading-nodes";
const CLUSTER_INFORMATION = "ClusterInformation(default)";
/** Lists plugins that give out host-local's addresses, or ask host-local for them (I§7 step 4). */
const PLUGINS = ["calico", "host-local"];

export interface ClusterAccess {
  readonly client: ApiClient;
  readonly group: ApiGroup;
  readonly node: string;
  /** The node's directory of plugins, as this process sees it. */
  readonly pluginDirectory: string;
}

/**
 * Needs the rights of calico-node: pods list, nodes get, nodes/status patch, clusterinformations get and update.
 *
 * Its methods throw DatastoreError: `conflict` when another client wrote first, `unauthorized`, `not-found`, `invalid`, `unavailable`.
 */
export function kubernetesCluster({ client, group, node, pluginDirectory }: ClusterAccess): UpgradeCluster {
  const nodePath = `/api/v1/nodes/${encodeURIComponent(node)}`;
  const informationPath = `/apis/${group}/clusterinformations/default`;
  const readNode = () => send(client, { method: "GET", path: nodePath }, `Node(${node})`);
  const tunnelAddressOf = (object: Fields) => metadataOf(object).annotations[TUNNEL_ADDRESS];

  const readInformation = () => send(client, { method: "GET", path: informationPath }, CLUSTER_INFORMATION);

  async function writeInformation(change: (nodes: readonly string[]) => Pause): Promise<void> {
    const found = await readInformation();
    const metadata = section(found, "metadata");
    const spec = section(found, "spec");
    const before = pausingNodes(found);
    const { nodes, isReady } = change(before);
    // So it is also when it was written and the answer got lost.
    if (spec.datastoreReady === isReady && nodes.join() === before.join()) return;
    const { [PAUSING_NODES]: _, ...others } = metadataOf(found).annotations;
    const annotations = nodes.length === 0 ? others : { ...others, [PAUSING_NODES]: nodes.join(",") };
    const changed = { ...found, metadata: { ...metadata, annotations }, spec: { ...spec, datastoreReady: isReady } };
    // By PUT, which calico-node may do.
    await send(client, { method: "PUT", path: informationPath, body: JSON.stringify(changed) }, CLUSTER_INFORMATION);
  }

  return {
    async pods() {
      // Where two pods have an address, the later one counts: one that still runs.
      const pods = await podsOf(client, node);
      const inOrder = [...pods.filter(isFinished), ...pods.filter((pod) => !isFinished(pod))];
      return inOrder.map(({ namespace, name, podIPs }) => ({ namespace, name, addresses: podIPs }));
    },
    podCidr: async () => text(section(await readNode(), "spec"), "podCIDR"),
    tunnelAddress: async () => tunnelAddressOf(await readNode()),
    async setTunnelAddress(address) {
      const found = await readNode();
      if (tunnelAddressOf(found) === address) return;
      const { resourceVersion } = metadataOf(found);
      const patch = { metadata: { resourceVersion, annotations: { [TUNNEL_ADDRESS]: address } } };
      const contentType = "application/strategic-merge-patch+json";
      await send(client, { method: "PATCH", path: `${nodePath}/status`, body: JSON.stringify(patch), contentType }, `Node(${node})`);
    },
    pause: () => writeInformation((nodes) => ({ nodes: [...nodes.filter((name) => name !== node), node], isReady: false })),
    isPausing: async () => pausingNodes(await readInformation()).includes(node),
    resume: () =>
      writeInformation((nodes) => {
        const others = nodes.filter((name) => name !== node);
        return { nodes: others, isReady: others.length === 0 };
      }),
    async removePlugins() {
      for (const plugin of PLUGINS) rmSync(join(pluginDirectory, plugin), { force: true });
    },
  };
}

interface Pause {
  readonly nodes: readonly string[];
  readonly isReady: boolean;
}

function pausingNodes(information: Fields): readonly string[] {
  return (metadataOf(information).annotations[PAUSING_NODES] ?? "").split(",").filter((name) => name !== "");
}

/** Pods that are bound to the node, finished ones too. */
async function podsOf(client: ApiClient, node: string): Promise<readonly Pod[]> {
  try {
    const ask = (query: string) => client.request({ method: "GET", path: `/api/v1/pods${query}` });
    return (await listPages(ask, { fieldSelector: `spec.nodeName=${node}` })).map(decodePod);
  } catch (error) {
    throw failureOf(error, `pods of node ${node}`);
  }
}

async function send(client: ApiClient, request: ApiRequest, what: string): Promise<Fields> {
  try {
    return parseObject(await client.request(request));
  } catch (error) {
    throw failureOf(error, what);
  }
}
