/**
 * `tortie-ipam -upgrade` (I§7). Where TORTIE_UPGRADE_CONFLIST names a network configuration (list) with the local datastore, the
 * containers that host-local gave addresses on this node get them in its pools. Without it a Kubernetes node is meant, as in Calico.
 */

import type { Environment } from "../../lib/cni/protocol.ts";
import { configOfConflist } from "../../lib/config/conflist.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import { configuredGroup, discoverGroup } from "../../lib/datastore/calico/codec.ts";
import { kubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { openApiClient } from "../../lib/kubernetes/client/client.ts";
import { Allocator } from "../allocator/allocator.ts";
import { systemClock } from "../node.ts";
import { ensurePools } from "../pools-from-config.ts";
import { openHostLocalDirectory } from "./host-local-directory.ts";
import { kubernetesCluster } from "./kubernetes-cluster.ts";
import { type Upgraded, upgrade, upgradeUntilDone } from "./upgrade.ts";

/** Where host-local keeps its networks unless its `dataDir` says otherwise. */
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

/** First part of the handles, whatever the network was called (I§7). */
const NETWORK = "k8s-pod-network";
const HOST_LOCAL_DIRECTORY = `/var/lib/cni/networks/${NETWORK}`;
const PLUGIN_DIRECTORY = "/host/opt/cni/bin";

interface UpgradedNode {
  readonly done: Upgraded;
  readonly directory: string;
  readonly datastore: string;
}

/**
 * On a Kubernetes node an init container with the node's directories does it. All it is told comes from the environment:
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
