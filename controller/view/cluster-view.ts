/** Shows the cluster as the watches have it, for one term of the leader. Decisions begin here; each is checked again before it is written. */

import { keyOf } from "../../doctor/snapshot.ts";
import { type Address, parseAddress } from "../../lib/addresses/address.ts";
import { affinityCodec } from "../../lib/datastore/calico/affinity.ts";
import { blockCodec, handleCodec } from "../../lib/datastore/calico/block.ts";
import type { ApiGroup } from "../../lib/datastore/calico/codec.ts";
import { poolCodec } from "../../lib/datastore/calico/pool.ts";
import { coreSelection, resourceSelection, type Watched } from "../../lib/datastore/calico/stored-kind.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { CONTAINER_ID } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { Block, BlockAffinity, Handle, IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, objects, section, text, textList } from "../../lib/json/decode.ts";
import { NETWORK_UNAVAILABLE } from "../../lib/kubernetes/network-condition.ts";
import { decodePod, type Metadata, metadataOf, type Pod } from "../../lib/kubernetes/objects.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { Selection } from "../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { CacheState, ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { Claimed } from "../../lib/system/claimed.ts";
import { isFinished, namedAddresses, POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";
import { IdentityView } from "./identity-view.ts";

/** How often a watch is requested again: the longest time for which a dead connection stays unnoticed. */
const HEARTBEAT_SECONDS = 30;

/** A TortieEndpoint, as far as its removal depends on it. */
export interface EndpointObject extends Pick<Metadata, "namespace" | "name" | "uid" | "resourceVersion"> {
  readonly node: string;
}

/** Which of Tortie's own kinds are watched. */
export interface OwnKinds {
  readonly endpointObjects: boolean;
  readonly identities: boolean;
}

export class ClusterView {
  readonly #nodes: ResourceCache<Watched<NodeView>>;
  readonly #pods: ResourceCache<Watched<PodView>>;
  readonly #blocks: ResourceCache<Watched<Block>>;
  readonly #affinities: ResourceCache<Watched<BlockAffinity>>;
  readonly #handles: ResourceCache<Watched<Handle>>;
  readonly #pools: ResourceCache<PoolView>;
  readonly #endpointObjects: ResourceCache<EndpointObject> | undefined;
  /** `undefined` where the cluster has no such kind, or the options want none. */
  readonly identities: IdentityView | undefined;
  readonly #all: readonly Pick<ResourceCache<unknown>, "state" | "untilSynced">[];

  /** Begins the watches. */
  constructor(informers: Pick<Informers, "watch">, group: ApiGroup, kinds: OwnKinds) {
    this.#nodes = informers.watch({
      ...coreSelection("nodes", decodeNodeView),
      heartbeatSeconds: HEARTBEAT_SECONDS,
    });
    this.#pods = informers.watch(coreSelection("pods", decodePodView));
    this.#blocks = informers.watch(resourceSelection(blockCodec, group));
    this.#affinities = informers.watch(resourceSelection(affinityCodec, group));
    this.#handles = informers.watch(resourceSelection(handleCodec, group));
    this.#pools = informers.watch(poolSelection(group));
    this.#endpointObjects = kinds.endpointObjects ? informers.watch(ENDPOINT_OBJECTS) : undefined;
    const ours = this.#endpointObjects === undefined ? [] : [this.#endpointObjects];
    this.#all = [this.#nodes, this.#pods, this.#blocks, this.#affinities, this.#handles, this.#pools, ...ours];
    this.identities = kinds.identities ? new IdentityView(informers) : undefined;
  }

  /** Of all watches, for people. */
  states(): readonly CacheState[] {
    return [...this.#needed(), ...(this.identities?.states() ?? [])];
  }

  /** Of the lists that every judgement needs. */
  #needed(): readonly CacheState[] {
    return this.#all.map(({ state }) => state);
  }

  /** Waits for the first complete list of each, but those of identities. @throws the signal's reason */
  async untilSynced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#all.map((cache) => cache.untilSynced(signal)));
  }

  /** Says why the lists cannot be relied on now; `undefined` when each is complete and followed without a gap. */
  get gap(): string | undefined {
    const missing = this.#needed().find(({ isSynced, followedSince }) => !isSynced || followedSince === undefined);
    if (missing !== undefined) return `${missing.name} are not complete${missing.problem === undefined ? "" : `: ${missing.problem}`}`;
    // A cluster without a node runs no controller: such a list is a server's mistake.
    return this.#nodes.list().length === 0 ? "the list of nodes is empty, which is not believed" : undefined;
  }

  /**
   * Says since when every list has been followed without a gap, in milliseconds of a clock that never jumps. A list that is not followed
   * right now does not count, since nothing is judged meanwhile.
   */
  get followedSince(): number {
    return Math.max(...this.#needed().map(({ followedSince = 0 }) => followedSince));
  }

  /** @throws Error with the gap */
  mustBeComplete(): void {
    const gap = this.gap;
    if (gap !== undefined) throw new Error(`nothing is judged: ${gap}`);
  }

  get nodes(): ReadonlySet<string> {
    return new Set(this.#nodes.list().map(({ name }) => name));
  }

  /** Returns what is known of each node, by name. */
  get nodeViews(): ReadonlyMap<string, NodeView> {
    return new Map(this.#nodes.list().map(({ name, stored }) => [name, stored.value]));
  }

  hasNode(name: string): boolean {
    return this.#nodes.get(name) !== undefined;
  }

  get pods(): readonly PodView[] {
    return this.#pods.list().map(({ stored }) => stored.value);
  }

  pod(namespace: string, name: string): PodView | undefined {
    return this.#pods.get(`${namespace}/${name}`)?.stored.value;
  }

  get blocks(): readonly Versioned<Block>[] {
    return present(this.#blocks);
  }

  get affinities(): readonly Versioned<BlockAffinity>[] {
    return present(this.#affinities);
  }

  get handles(): readonly Versioned<Handle>[] {
    return present(this.#handles);
  }

  get pools(): readonly PoolView[] {
    return this.#pools.list();
  }

  get endpointObjects(): readonly EndpointObject[] {
    return this.#endpointObjects?.list() ?? [];
  }
}

function present<T>(cache: ResourceCache<Watched<T>>): readonly Versioned<T>[] {
  return cache.list().flatMap(({ stored, isMarked }) => (isMarked ? [] : [stored]));
}

export const OWN_GROUP_PATH = "/apis/tortie.dev/v1alpha1";

const ENDPOINT_OBJECTS = {
  name: "tortieendpoints",
  path: `${OWN_GROUP_PATH}/tortieendpoints`,
  decode(object: Fields): EndpointObject {
    const metadata = section(object, "metadata");
    return {
      namespace: text(metadata, "namespace"),
      name: text(metadata, "name"),
      uid: text(metadata, "uid"),
      resourceVersion: text(metadata, "resourceVersion"),
      node: text(section(object, "spec"), "node"),
    };
  },
};

/** A pool with what the datastore's model leaves out: labels, finalizers, conditions, and the version that a patch is made from. */
export interface PoolView {
  readonly pool: IPPool;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  /** `status.conditions`, Calico's own included. */
  readonly conditions: readonly Fields[];
}

function poolSelection(group: ApiGroup): Selection<PoolView> {
  return { name: "ippools", path: `/apis/${group}/ippools`, decode: decodePoolView };
}

function decodePoolView(object: Fields): PoolView {
  const metadata = metadataOf(object);
  const status = section(object, "status");
  const { finalizers } = section(object, "metadata");
  return {
    pool: poolCodec.decode({ metadata, spec: section(object, "spec"), status }),
    resourceVersion: metadata.resourceVersion,
    labels: metadata.labels,
    finalizers: Array.isArray(finalizers) ? finalizers.filter((name) => typeof name === "string") : [],
    conditions: objects(status, "conditions"),
  };
}

/** A node, as far as the first pools and the condition of its agent depend on it. */
export interface NodeView {
  readonly labels: Readonly<Record<string, string>>;
  readonly resourceVersion: string;
  /** Its kubelet says so. */
  readonly isReady: boolean;
  /** Condition `NetworkUnavailable`, if anybody has written it. */
  readonly network: { readonly reason: string } | undefined;
  /** `spec.podCIDRs`, which the cluster gives and the API server judges. */
  readonly ranges: readonly string[];
  /** `status.addresses`: what the node's kubelet says of itself. It can keep a pool from being made, and nothing else. */
  readonly addresses: readonly Address[];
}

/** @throws Error naming the field that is of the wrong type */
function decodeNodeView(object: Fields): NodeView {
  const { labels, resourceVersion } = metadataOf(object);
  const network = conditionOf(object, NETWORK_UNAVAILABLE);
  return {
    labels,
    resourceVersion,
    isReady: isReady(object),
    network: network && { reason: text(network, "reason") },
    ranges: textList(section(object, "spec"), "podCIDRs"),
    addresses: objects(section(object, "status"), "addresses").flatMap((entry) => parseAddress(text(entry, "address")) ?? []),
  };
}

function conditionOf(object: Fields, type: string): Fields | undefined {
  return objects(section(object, "status"), "conditions").find((condition) => text(condition, "type") === type);
}

/** Of nodes and pods alike. */
function isReady(object: Fields): boolean {
  const ready = conditionOf(object, "Ready");
  return ready !== undefined && text(ready, "status") === "True";
}

/** Annotation in which Multus lists the interfaces of a pod. */
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";
/** Label of the pods of Calico's kube-controllers, in its manifests, chart and operator. */
const APP_LABEL = "k8s-app";
/** Value of that label, and name of the service account. */
export const KUBE_CONTROLLERS = "calico-kube-controllers";

/** A pod as far as addresses depend on it. Decoding takes whatever can be read: a pod that is left out would hold nothing. */
export interface PodView extends Pick<Pod, "namespace" | "name" | "uid" | "labels" | "serviceAccountName" | "isHostNetwork"> {
  /** Empty while it is on no node. */
  readonly node: string;
  /** Condition `Ready`, which the node's kubelet writes. */
  readonly isReady: boolean;
  /** It will not use its addresses again. */
  readonly isFinished: boolean;
  /** The addresses of its status, as keys (doctor/snapshot.ts). A tenant cannot write them. */
  readonly addresses: readonly string[];
  /** The addresses that its annotations name, as keys. Needs a proof that the pod may speak of the address: judge/allocations.ts. */
  readonly annotated: Claimed<readonly string[]>;
  /** Its annotations were read to their end. Otherwise `annotated` may lack an address. */
  readonly isWhole: boolean;
  /** As an ADD has written it; empty when none has. */
  readonly containerId: string;
  /** The annotations that name addresses are not blank. */
  readonly isAnnotated: boolean;
  /** By label and account, and it has not ended. Whether it may say so in its namespace is another question (duties/duty.ts). */
  readonly isKubeControllers: boolean;
}

export function decodePodView(object: Fields): PodView {
  return podView(decodePod(object), isReady(object));
}

function podView(pod: Pod, isReady: boolean): PodView {
  const { annotations, labels, serviceAccountName, isHostNetwork } = pod;
  const recorded = [annotations[POD_IPS] ?? "", annotations[POD_IP] ?? ""];
  const named = namedAddresses([...recorded, annotations[NETWORK_STATUS] ?? ""]);
  const status = namedAddresses([pod.podIP, ...pod.podIPs]);
  return {
    namespace: pod.namespace,
    name: pod.name,
    uid: pod.uid,
    node: pod.nodeName,
    isReady,
    isFinished: isFinished(pod),
    addresses: status.addresses.map(keyOf),
    annotated: new Claimed(named.addresses.map(keyOf)),
    isWhole: named.isWhole && status.isWhole,
    containerId: annotations[CONTAINER_ID] ?? "",
    isAnnotated: recorded.some((text) => text !== ""),
    isKubeControllers: labels[APP_LABEL] === KUBE_CONTROLLERS && serviceAccountName === KUBE_CONTROLLERS && !isFinished(pod),
    labels,
    serviceAccountName,
    isHostNetwork,
  };
}
