/** The watches behind the copies, on a Kubernetes API server (A§11.7): own pods, own node, own affinities, and what decides about addresses. */
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { affinityCodec, affinitySelector } from "../../lib/datastore/kubernetes/codecs/affinity-codec.ts";
import { clusterInformationCodec, configurationCodec, reservationCodec } from "../../lib/datastore/kubernetes/codecs/cluster-codecs.ts";
import type { Codec } from "../../lib/datastore/kubernetes/codecs/codec.ts";
import { poolCodec } from "../../lib/datastore/kubernetes/codecs/pool-codec.ts";
import { decodeNamespace, decodeNode, decodePod } from "../../lib/datastore/kubernetes/core/decode-objects.ts";
import { metadataOf, revisionOf } from "../../lib/datastore/kubernetes/core/metadata.ts";
import type { ApiGroup } from "../../lib/datastore/kubernetes/group.ts";
import { type Fields, section } from "../../lib/json/decode.ts";
import type { ClusterNode, Namespace, Pod } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { Copies, Watched } from "./copies.ts";

export interface KubernetesCopies extends Copies {
  readonly pods: Pick<ResourceCache<Watched<Pod>>, "isUsable" | "get">;
  readonly nodes: ResourceCache<Watched<ClusterNode>>;
  readonly namespaces: ResourceCache<Watched<Namespace>>;
  /** Waits for the first complete list of each. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

/** Begins the watches. */
export function watchKubernetes(informers: Pick<Informers, "watch">, group: ApiGroup, nodeName: string): KubernetesCopies {
  const owner = { type: "host", name: nodeName } as const;
  const resource = <K, T>(codec: Codec<K, T>, labelSelector?: string): ResourceCache<Watched<T>> =>
    informers.watch({
      name: codec.plural(group),
      path: `/apis/${group}/${codec.plural(group)}`,
      labelSelector,
      prepare: codec.prepare,
      decode: (object) => watched(object, (fields) => resourceOf(codec, fields)),
    });
  const core = <T>(plural: string, decode: (object: Fields) => T, fieldSelector?: string): ResourceCache<Watched<T>> =>
    informers.watch({ name: plural, path: `/api/v1/${plural}`, fieldSelector, decode: (object) => watched(object, decode) });
  const affinities = resource(affinityCodec, withoutFamily(affinitySelector(owner, 4)));
  const copies = {
    pools: resource(poolCodec),
    reservations: resource(reservationCodec),
    configuration: resource(configurationCodec),
    clusterInformation: resource(clusterInformationCodec),
    nodes: core("nodes", decodeNode, `metadata.name=${nodeName}`),
    namespaces: core("namespaces", decodeNamespace),
    pods: core("pods", decodePod, `spec.nodeName=${nodeName}`),
  };
  return {
    ...copies,
    affinities: { owner, copy: affinities },
    async untilSynced(signal) {
      await Promise.all([...Object.values(copies), affinities].map((cache) => cache.untilSynced(signal)));
    },
  };
}

function resourceOf<K, T>(codec: Codec<K, T>, object: Fields): T {
  const value = codec.decode({ metadata: metadataOf(object), spec: section(object, "spec"), status: section(object, "status") });
  codec.verify?.(value);
  return value;
}

function watched<T>(object: Fields, decode: (object: Fields) => T): Watched<T> {
  const metadata = metadataOf(object);
  const { deleted } = section(object, "spec");
  const stored: Versioned<T> = { value: decode(object), revision: revisionOf(metadata) };
  return { name: metadata.name, stored, isMarked: deleted === true || deleted === "true" };
}

/** Both families of one owner: all labels of the selector but that of the family. */
function withoutFamily(selector: string): string {
  return selector
    .split(",")
    .filter((label) => !label.startsWith("projectcalico.org/ip-version="))
    .join(",");
}
