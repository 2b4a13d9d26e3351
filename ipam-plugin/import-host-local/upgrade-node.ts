/**
 * `tortie-ipam -upgrade` on a Kubernetes node (I§7): an init container with the node's directories, that repeats itself until it is
 * done. All it is told comes from the environment: KUBERNETES_NODE_NAME, and where the API server is (C§1.4).
 */

import type { Environment } from "../../lib/cni/environment.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { configuredGroup, discoverGroup } from "../../lib/datastore/calico/group.ts";
import { kubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { openApiClient } from "../../lib/kubernetes/client/client.ts";
import { Allocator } from "../allocator/allocator.ts";
import { systemClock } from "../node.ts";
import { openHostLocalDirectory } from "./host-local-directory.ts";
import { kubernetesCluster } from "./kubernetes-cluster.ts";
import { type Upgraded, upgradeUntilDone } from "./upgrade.ts";

/** First part of the handles, whatever the network was called (I§7). */
const NETWORK = "k8s-pod-network";
const HOST_LOCAL_DIRECTORY = `/var/lib/cni/networks/${NETWORK}`;
const PLUGIN_DIRECTORY = "/host/opt/cni/bin";

export interface UpgradedNode {
  readonly done: Upgraded;
  readonly directory: string;
  readonly datastore: string;
}

/**
 * Comes back when it is done, however often it has to try: `tell` gets each failure.
 *
 * @throws TortieError `environment-missing`, and what a configuration that leads to no API server throws
 */
export async function upgradeNode(environment: Environment, tell: (message: string) => void): Promise<UpgradedNode> {
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
