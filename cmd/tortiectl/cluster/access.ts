/** Opens the cluster that kubectl means: its file, its context, its namespace. Reads lists of objects, and says what a refusal means. */
import { homedir } from "node:os";
import { GROUP, PLURAL, VERSION } from "../../../agent/objects/endpoint-object.ts";
import type { Environment } from "../../../lib/cni/protocol.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../../lib/config/decode.ts";
import { kubernetesDatastore } from "../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import type { Fields } from "../../../lib/json/decode.ts";
import { ApiError, everyItem, type Selectors } from "../../../lib/kubernetes/api-client.ts";
import { type ConnectedClient, openApiClient } from "../../../lib/kubernetes/client/client.ts";
import { readKubeconfig } from "../../../lib/kubernetes/config/kubeconfig.ts";
import { isThere } from "../../../lib/system/files.ts";
import { requireKubeconfig } from "../ipam/store.ts";

/** Has what every command of `kubectl tortie` takes. */
export interface ClusterOptions {
  /** `undefined`: KUBECONFIG, else ~/.kube/config, else the pod's own account. */
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

export interface Cluster extends Disposable {
  readonly client: ConnectedClient;
  /** Namespace of the context. */
  readonly namespace: string;
  /** Has the pools and blocks; not to be closed by itself. */
  readonly datastore: ReturnType<typeof kubernetesDatastore>;
  /** What lists of the datastore had to leave out: a message for each object. */
  readonly unreadable: ReadonlySet<string>;
  /** Lists objects of every page. @throws TortieError; ApiError of status 404 where the server does not know the kind */
  list(path: string, selectors?: Selectors): Promise<readonly Fields[]>;
}

/** @throws TortieError `kubeconfig-missing`, `kubeconfig-unreadable`, `kubeconfig-invalid` */
export function openCluster(options: ClusterOptions): Cluster {
  const env = environmentOf(options);
  const client = openApiClient(decodeNetworkConfig({ datastore_type: "kubernetes" }), env);
  const unreadable = new Set<string>();
  return {
    client,
    namespace: namespaceOf(env),
    unreadable,
    datastore: kubernetesDatastore(client, { onDamaged: ({ message }) => void unreadable.add(message) }),
    list: (path, selectors) => explained(() => everyItem(client, path, selectors)),
    [Symbol.dispose]: () => client.close(),
  };
}

/** Opens the API server that a file leads to. @throws TortieError `kubeconfig-unreadable` */
export function openNamedServer(kubeconfig: string, settings: Partial<NetworkConfig> = {}): ConnectedClient {
  requireKubeconfig(kubeconfig);
  const config = decodeNetworkConfig({ datastore_type: "kubernetes", kubernetes: { kubeconfig } });
  return openApiClient({ ...config, ...settings }, process.env);
}

/** Lets the options win over everything that the environment says about API servers. */
export function environmentOf({ kubeconfig, context }: ClusterOptions, env: Environment = process.env): Environment {
  const { CALICO_K8S_API_ENDPOINT: _, K8S_API_ENDPOINT: __, CALICO_KUBECONFIG: ___, ...others } = env;
  const own = `${env.HOME || homedir()}/.kube/config`;
  const isInPod = (env.KUBERNETES_SERVICE_HOST ?? "") !== "" && !isThere(own);
  const file = kubeconfig ?? (env.KUBECONFIG || (isInPod ? undefined : own));
  return {
    ...others,
    CALICO_DATASTORE_TYPE: "kubernetes",
    ...(file !== undefined && { KUBECONFIG: file }),
    ...(context !== undefined && { K8S_CURRENT_CONTEXT: context }),
  };
}

/** Returns the namespace that kubectl would mean. */
function namespaceOf({ KUBECONFIG: files, K8S_CURRENT_CONTEXT: context }: Environment): string {
  return (files === undefined ? undefined : readKubeconfig(files, context).namespace) ?? "default";
}

const REFUSALS = { 401: "datastore-unauthorized", 403: "datastore-forbidden" } as const;

/** Gives what the server refused, or did not answer, its word. @throws what `ask` throws */
export async function explained<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401 || error.status === 403) {
      const next =
        "take a --context or --kubeconfig whose account has that right; docs/how-to/kubectl-tortie.md lists what each command needs";
      throw new TortieError(REFUSALS[error.status], error.message, { cause: error, next });
    }
    if (error.status !== 0 && error.status < 500) throw error;
    throw new TortieError("datastore-unavailable", error.message, {
      cause: error,
      next: "kubectl version says whether the API server answers",
    });
  }
}

/** Lists objects of a kind that a cluster may lack, or that an account may not read: then there are none. */
export async function listIfAny(cluster: Cluster, path: string, selectors: Selectors = {}): Promise<readonly Fields[]> {
  try {
    return await cluster.list(path, selectors);
  } catch (error) {
    const isRefused = error instanceof TortieError && Object.values<string>(REFUSALS).includes(error.word);
    if (isRefused || (error instanceof ApiError && error.status === 404)) return [];
    throw error;
  }
}

/** @param within "/namespaces/NAME"; empty for all @returns the path of the agents' endpoint objects */
export function endpointObjects(within = ""): string {
  return `/apis/${GROUP}/${VERSION}${within}/${PLURAL}`;
}
