/**
 * Opens the Kubernetes datastore of a long-running process: watches keep copies of what decides about addresses (A§11.7), over a
 * connection of their own.
 */

import type { Environment } from "../../lib/cni/protocol.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { affinityCodec, affinitySelector } from "../../lib/datastore/calico/affinity.ts";
import type { Codec } from "../../lib/datastore/calico/codec.ts";
import { type ApiGroup, configuredGroup, discoverGroup } from "../../lib/datastore/calico/codec.ts";
import {
  clusterInformationCodec,
  configurationCodec,
  poolSelection,
  reservationCodec,
  type WatchedPool,
} from "../../lib/datastore/calico/pool.ts";
import { coreSelection, resourceSelection, type Watched } from "../../lib/datastore/calico/stored-kind.ts";
import type { KubernetesCore } from "../../lib/datastore/datastore.ts";
import type { DatastoreError } from "../../lib/datastore/errors.ts";
import { kubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { failureOf } from "../../lib/datastore/kubernetes/resource-api.ts";
import type { Fields } from "../../lib/json/decode.ts";
import { type ApiClient, ApiError } from "../../lib/kubernetes/api-client.ts";
import { openApiClient } from "../../lib/kubernetes/client/client.ts";
import { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { ApiConfig } from "../../lib/kubernetes/config/api-config.ts";
import { readInCluster, resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import { decodeNamespace, decodeNode, decodePod } from "../../lib/kubernetes/objects.ts";
import { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { type Tracing, tracedClient } from "../observe/tracing.ts";
import { CachedCore, type CachedDatastore, type CoreCopies, cachedDatastore } from "./cached-datastore.ts";
import type { Copies } from "./read-your-writes.ts";

/** For one call at a time there is a limit of requests a second; what many calls share has its own. */
const NO_LIMIT = -1;

/**
 * Requests of a burst that are under way together. With one, as a plugin has it, the server did nothing for a quarter of a burst's time; 64
 * are no faster than 16 (docs/project/benchmarks.md).
 */
const CONNECTIONS = 16;

export interface CachedStoreInput {
  readonly config: NetworkConfig;
  readonly env: Environment;
  readonly nodeName: string;
  readonly onDamaged?: ((error: DatastoreError) => void) | undefined;
  /** Of an account that may watch. */
  readonly kubeconfig?: string | undefined;
  /** Of the agent, whose pod has an account that may watch. */
  readonly agentEnv?: Environment | undefined;
  /** Pools that the agent watches with its own account, for all its parts. */
  readonly pools?: ((group: ApiGroup) => ResourceCache<WatchedPool>) | undefined;
  readonly log: Pick<Logger, "error">;
  readonly tracing?: Pick<Tracing, "during"> | undefined;
  /** Whether this node claims blocks; default true. */
  readonly hasOwnBlocks?: boolean;
}

export interface CachedKubernetes extends CachedDatastore {
  readonly core: KubernetesCore;
  /** Waits until every copy is complete. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

/**
 * Does not wait for the copies: until they are complete the server is asked.
 * @throws TortieError when the configuration leads to no API server; DatastoreError when the server cannot say which group it has
 */
export async function openCachedKubernetes(input: CachedStoreInput): Promise<CachedKubernetes> {
  const { config, env, nodeName, onDamaged, log, tracing, hasOwnBlocks = true } = input;
  const client = tracedClient(openApiClient({ ...config, qps: NO_LIMIT }, env, { connections: CONNECTIONS }), tracing);
  try {
    const group = configuredGroup(config, env) ?? (await groupOf(client));
    const interfacePrefix = env.FELIX_INTERFACEPREFIX?.split(",")[0] || undefined;
    const store = kubernetesDatastore(client, { group, interfacePrefix, ...(onDamaged && { onDamaged }) });
    const account = watchingAccount(input);
    const connection = new ApiConnection(account.config);
    const informers = new Informers(connection, { onProblem: (message) => log.error(message) });
    const pools = account.isAgents ? input.pools?.(group) : undefined;
    const copies = watchKubernetes({ informers, group, nodeName, hasOwnBlocks, pools });
    const core = new CachedCore(store.core, copies);
    return {
      ...cachedDatastore({ ...store, records: core.noting(store.records) }, copies),
      description: store.description,
      core,
      untilSynced: (signal) => copies.untilSynced(signal),
      async [Symbol.asyncDispose]() {
        await informers[Symbol.asyncDispose]();
        connection.close();
        client.close();
      },
    };
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Chooses the agent's own account where it is for the same server: the plugins' account may not watch. */
export function watchingAccount({ config, env, kubeconfig, agentEnv = {} }: CachedStoreInput): {
  readonly config: ApiConfig;
  readonly isAgents: boolean;
} {
  const asCaller = resolveApiConfig(config, env);
  const own = kubeconfig === undefined ? accountOfPod(agentEnv) : resolveApiConfig(decodeNetworkConfig({ kubernetes: { kubeconfig } }), {});
  return own?.server.url === asCaller.server.url ? { config: own, isAgents: true } : { config: asCaller, isAgents: false };
}

/** @returns `undefined` outside of a pod */
function accountOfPod({ KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT }: Environment): ApiConfig | undefined {
  const server = { KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT };
  return readInCluster(server) === undefined ? undefined : resolveApiConfig(decodeNetworkConfig({}), server);
}

/** Finds out the API group. A server that is away must not pass for one of the older group, since this process lives on. */
async function groupOf(client: ApiClient): Promise<ApiGroup> {
  try {
    await client.request({ method: "GET", path: "/version" });
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) throw failureOf(error, "group of Calico's resources");
  }
  return discoverGroup(client);
}

/** How often one watch of each connection is requested again; other watches are given up when that is not answered. */
const HEARTBEAT_SECONDS = 30;

export interface KubernetesCopies extends Omit<Copies, keyof CoreCopies>, CoreCopies {
  /** Waits for the first complete list of each. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

interface WatchedKubernetes {
  readonly informers: Pick<Informers, "watch">;
  readonly group: ApiGroup;
  readonly nodeName: string;
  readonly hasOwnBlocks: boolean;
  /** `undefined`: they have no watch yet. */
  readonly pools: ResourceCache<WatchedPool> | undefined;
}

/** Begins the watches; that of the node's affinities only where it has blocks. */
export function watchKubernetes({ informers, group, nodeName, hasOwnBlocks, pools }: WatchedKubernetes): KubernetesCopies {
  const owner = { type: "host", name: nodeName } as const;
  const resource = <K, T>(codec: Codec<K, T>, labelSelector?: string): ResourceCache<Watched<T>> =>
    informers.watch({ ...resourceSelection(codec, group), labelSelector });
  const affinities = hasOwnBlocks ? resource(affinityCodec, withoutFamily(affinitySelector(owner, 4))) : undefined;
  const copies = {
    pools: pools ?? informers.watch(poolSelection(group)),
    reservations: resource(reservationCodec),
    configuration: resource(configurationCodec),
    // The heartbeat of this connection: one object, by which a cluster is paused.
    clusterInformation: informers.watch({
      ...resourceSelection(clusterInformationCodec, group),
      heartbeatSeconds: HEARTBEAT_SECONDS,
    }),
    ...watchCore(informers, nodeName, {}),
  };
  return {
    ...copies,
    affinities: affinities && { owner, copy: affinities },
    async untilSynced(signal) {
      const all = [...Object.values(copies), ...(affinities === undefined ? [] : [affinities])];
      await Promise.all(all.map((cache) => cache.untilSynced(signal)));
    },
  };
}

/**
 * Begins the watches of own pods, own node and all namespaces.
 * @param ownNode what else is asked of the watch of the own node: it is the heartbeat of a connection that has no other
 */
export function watchCore(
  informers: Pick<Informers, "watch">,
  nodeName: string,
  ownNode: { readonly heartbeatSeconds?: number } = { heartbeatSeconds: HEARTBEAT_SECONDS },
): CoreCopies {
  const core = <T>(plural: string, decode: (object: Fields) => T, fieldSelector?: string): ResourceCache<Watched<T>> =>
    informers.watch({ ...coreSelection(plural, decode), fieldSelector });
  return {
    nodes: informers.watch({ ...coreSelection("nodes", decodeNode), fieldSelector: `metadata.name=${nodeName}`, ...ownNode }),
    namespaces: core("namespaces", decodeNamespace),
    pods: core("pods", decodePod, `spec.nodeName=${nodeName}`),
  };
}

/** Leaves out the label of the family, so that one watch has both families of an owner. */
function withoutFamily(selector: string): string {
  return selector
    .split(",")
    .filter((label) => !label.startsWith("projectcalico.org/ip-version="))
    .join(",");
}
