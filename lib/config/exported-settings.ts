/**
 * The settings of the datastore as variables for an IPAM plugin that is executed (C§1.4): Calico's main plugin leaves them in its
 * environment, and a plugin may look there for what it does not find in the network configuration.
 */
import type { DatastoreType, NetworkConfig } from "./network-config.ts";

type Settings = Pick<NetworkConfig, "datastoreType" | "etcd" | "kubernetes" | "policy" | "calicoApiGroup" | "qps" | "burst">;

/** The settings of the network configuration without any token. Empty for the local datastore, which no other plugin uses. */
export function exportedSettings(config: Settings, datastore: DatastoreType): Readonly<Record<string, string>> {
  if (datastore === "local") return {};
  const { etcd, kubernetes, policy } = config;
  const settings: Readonly<Record<string, string | undefined>> = {
    DATASTORE_TYPE: config.datastoreType,
    ETCD_ENDPOINTS: etcd.endpoints,
    ETCD_DISCOVERY_SRV: etcd.discoverySrv,
    ETCD_KEY_FILE: etcd.keyFile,
    ETCD_CERT_FILE: etcd.certFile,
    ETCD_CA_CERT_FILE: etcd.caCertFile,
    ETCD_AUTHORITY: etcd.authority,
    ETCD_SCHEME: etcd.scheme,
    KUBECONFIG: kubernetes.kubeconfig,
    K8S_API_ENDPOINT: kubernetes.k8sApiRoot ?? policy.k8sApiRoot,
    CALICO_API_GROUP: config.calicoApiGroup,
    K8S_CLIENT_QPS: config.qps === 0 ? undefined : String(config.qps),
    K8S_CLIENT_BURST: config.burst === 0 ? undefined : String(config.burst),
  };
  return Object.fromEntries(Object.entries(settings).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}
