/**
 * The watches behind the copies, on a Kubernetes API server (A§11.7): own pods, own node, own affinities, and what decides about addresses.
 */
import { affinityCodec, affinitySelector } from "../../lib/datastore/calico/affinity.ts";
import { clusterInformationCodec, configurationCodec, reservationCodec } from "../../lib/datastore/calico/cluster.ts";
import type { Codec } from "../../lib/datastore/calico/codec.ts";
import type { ApiGroup } from "../../lib/datastore/calico/group.ts";
import { poolCodec } from "../../lib/datastore/calico/pool.ts";
import { coreSelection, resourceSelection, type Watched } from "../../lib/datastore/kubernetes/selections.ts";
import type { Fields } from "../../lib/json/decode.ts";
import type { ClusterNode, Namespace, Pod } from "../../lib/kubernetes/objects.ts";
import { decodeNamespace, decodeNode, decodePod } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { Copies } from "./copies.ts";

/** How often one watch of each connection is requested anew; other watches are given up when that is not answered. */
const HEARTBEAT_SECONDS = 30;

/** Of Kubernetes' own objects. */
export interface CoreCopies {
  readonly pods: ResourceCache<Watched<Pod>>;
  readonly nodes: ResourceCache<Watched<ClusterNode>>;
  readonly namespaces: ResourceCache<Watched<Namespace>>;
}

export interface KubernetesCopies extends Omit<Copies, keyof CoreCopies>, CoreCopies {
  /** Waits for the first complete list of each. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

/** Begins the watches; that of the node's affinities only where it has blocks. */
export function watchKubernetes(
  informers: Pick<Informers, "watch">,
  group: ApiGroup,
  nodeName: string,
  hasOwnBlocks: boolean,
): KubernetesCopies {
  const owner = { type: "host", name: nodeName } as const;
  const resource = <K, T>(codec: Codec<K, T>, labelSelector?: string): ResourceCache<Watched<T>> =>
    informers.watch({ ...resourceSelection(codec, group), labelSelector });
  const affinities = hasOwnBlocks ? resource(affinityCodec, withoutFamily(affinitySelector(owner, 4))) : undefined;
  const copies = {
    pools: resource(poolCodec),
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
    ...(affinities === undefined ? {} : { affinities: { owner, copy: affinities } }),
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

/** Both families of one owner: all labels of the selector but that of the family. */
function withoutFamily(selector: string): string {
  return selector
    .split(",")
    .filter((label) => !label.startsWith("projectcalico.org/ip-version="))
    .join(",");
}
