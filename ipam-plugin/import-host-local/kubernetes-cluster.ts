/**
 * What the upgrade from host-local needs of a cluster (I§7), over the Kubernetes API: pods and the node from Kubernetes itself,
 * ClusterInformation from one of Calico's two groups, and the plugins' directory of the node that is mounted below /host.
 */

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { ApiGroup } from "../../lib/datastore/calico/codec.ts";
import { failureOf, listPages } from "../../lib/datastore/kubernetes/resource-api.ts";
import { type Fields, parseObject, section, text } from "../../lib/json/decode.ts";
import type { ApiClient, ApiRequest } from "../../lib/kubernetes/api-client.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { decodePod, metadataOf } from "../../lib/kubernetes/objects.ts";
import { isFinished } from "../../lib/workload/annotations/pod-addresses.ts";
import type { UpgradeCluster } from "./upgrade.ts";

/** Where calico-node keeps the address of the IPIP tunnel: an annotation of the Kubernetes node, in both groups. */
const TUNNEL_ADDRESS = "projectcalico.org/IPv4IPIPTunnelAddr";
/** Annotation of ClusterInformation: names of the nodes that move addresses, so that the first to end does not let the cluster go on. */
const PAUSING_NODES = "tortie-upgrading-nodes";
const CLUSTER_INFORMATION = "ClusterInformation(default)";
/** Plugins that give out host-local's addresses, or ask host-local for them (I§7 step 4). */
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
      await send(
        client,
        {
          method: "PATCH",
          path: `${nodePath}/status`,
          body: JSON.stringify(patch),
          contentType: "application/strategic-merge-patch+json",
        },
        `Node(${node})`,
      );
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
