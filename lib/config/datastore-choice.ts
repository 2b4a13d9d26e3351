/** Chooses which datastore an operation uses (C§1.4), with `local` where nothing speaks of Kubernetes or etcd. */
import type { Environment } from "../cni/protocol.ts";
import { TortieError } from "../errors/errors.ts";
import type { DatastoreType, NetworkConfig } from "./decode.ts";

const TYPES: readonly DatastoreType[] = ["local", "kubernetes", "etcdv3"];

type Choosing = Pick<NetworkConfig, "datastoreType" | "etcd" | "kubernetes" | "policy">;

/**
 * An explicit type wins; then etcd if any endpoint is configured, Kubernetes if a kubeconfig or an API server is, else local.
 * As in Calico a variable with the prefix CALICO_ beats the network configuration, which beats the plain variable.
 * The variables that Kubernetes sets in every container (KUBERNETES_SERVICE_HOST) choose nothing: every
 * container has them.
 *
 * @throws TortieError `netconf-value`: "unknown datastore type: X"
 */
export function chooseDatastore(config: Choosing, env: Environment): DatastoreType {
  const setting = (name: string, configured: string | undefined) => settingIn(env, name, configured);
  const explicit = setting("DATASTORE_TYPE", config.datastoreType);
  if (explicit !== undefined) {
    const type = TYPES.find((one) => one === explicit);
    if (type === undefined) throw new TortieError("netconf-value", `unknown datastore type: ${explicit}`);
    return type;
  }
  const { etcd } = config;
  if (setting("ETCD_ENDPOINTS", etcd.endpoints) ?? setting("ETCD_DISCOVERY_SRV", etcd.discoverySrv)) return "etcdv3";
  return isKubernetesConfigured(config, env) ? "kubernetes" : "local";
}

/** Tells whether the configuration or the environment says where a Kubernetes API server is. */
export function isKubernetesConfigured({ kubernetes, policy }: Pick<Choosing, "kubernetes" | "policy">, env: Environment): boolean {
  const root = settingIn(env, "K8S_API_ENDPOINT", kubernetes.k8sApiRoot ?? policy.k8sApiRoot);
  return (settingIn(env, "KUBECONFIG", kubernetes.kubeconfig) ?? root) !== undefined;
}

function settingIn(env: Environment, name: string, configured: string | undefined): string | undefined {
  return env[`CALICO_${name}`] || configured || env[name] || undefined;
}

/**
 * `policy.type: k8s` reads pods and namespaces from an API server, which the local datastore is not. Judged by ADD and STATUS only:
 * what was never added can be deleted all the same.
 *
 * @throws TortieError `netconf-value`
 */
export function checkPolicyType(config: Pick<NetworkConfig, "policy">, datastore: DatastoreType): void {
  if (datastore !== "local" || config.policy.type !== "k8s") return;
  throw new TortieError(
    "netconf-value",
    "policy.type k8s needs a Kubernetes API server, but the datastore is local: remove policy.type, or set datastore_type to kubernetes",
  );
}

type Settings = Pick<NetworkConfig, "datastoreType" | "etcd" | "kubernetes" | "policy" | "calicoApiGroup" | "qps" | "burst">;

/**
 * Writes the settings of the datastore as variables for an IPAM plugin that is executed (C§1.4): Calico's main plugin leaves them in its
 * environment, and a plugin may look there for what it does not find in the network configuration. Without any token. Empty for the local
 * datastore, which no other plugin uses.
 */
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
