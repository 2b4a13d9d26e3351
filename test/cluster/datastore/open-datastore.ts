/** The Kubernetes driver as the plugins open it: from a network configuration, as the plugins' service account. */
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import type { DatastoreError } from "../../../lib/datastore/errors.ts";
import { type KubernetesDatastore, openKubernetesDatastore } from "../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import type { CalicoGroup, Identity } from "../../support/kubernetes/test-cluster.ts";

/** A cluster, or a fault proxy before one. */
interface Reachable {
  kubeconfigFor(identity: Identity): Promise<string>;
}

export interface OpenOptions {
  /** Absent: the driver asks the server. */
  readonly group?: CalicoGroup;
  readonly identity?: Identity;
  readonly onDamaged?: (error: DatastoreError) => void;
}

export async function openDatastoreOf(reachable: Reachable, options: OpenOptions = {}): Promise<KubernetesDatastore> {
  const config = decodeNetworkConfig({
    name: "net1",
    datastore_type: "kubernetes",
    kubernetes: { kubeconfig: await reachable.kubeconfigFor(options.identity ?? "cni") },
    ...(options.group === undefined ? {} : { calico_api_group: options.group }),
    // As Calico's default of five requests a second would have it, the suite would take minutes.
    qps: 1000,
    burst: 1000,
  });
  return openKubernetesDatastore(config, {}, options.onDamaged);
}
