/** Answers from copies and from memory what an old answer may do for, and asks the store for everything else (A§11.4, A§11.7). */
import type { Watched } from "../../lib/datastore/calico/stored-kind.ts";
import type {
  Collection,
  Datastore,
  EndpointRecords,
  KubernetesCore,
  ListOptions,
  PodReadOptions,
  Reader,
  ReadOptions,
  RecordedAddresses,
  Versioned,
} from "../../lib/datastore/datastore.ts";
import { podOf, recordOfPod } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { ClusterInformation } from "../../lib/datastore/resources.ts";
import type { ClusterNode, Namespace } from "../../lib/kubernetes/objects.ts";
import { isPodOfUid, type NamespacedName, type Pod } from "../../lib/kubernetes/objects.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { RecentMap } from "../../lib/system/recent-map.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import { allFromCopy, type Copies, type Copy, type FollowedCopy, fromCopy, LastKnown, OwnAffinities } from "./read-your-writes.ts";

export interface CachedDatastore extends Datastore {
  /** Kubernetes' own objects, where there is a way to them. */
  readonly core: KubernetesCore | undefined;
  /** Says whether this process made the handle of this id and, as far as it knows, no other process has written it since. */
  hasMadeHandle(handle: string): boolean;
}

/** @param core asked for at each use, and not before */
export function cachedDatastore(
  inner: Datastore,
  copies: Copies = {},
  core: () => KubernetesCore | undefined = () => undefined,
): CachedDatastore {
  const { pools, reservations, blocks } = inner;
  const handles = Object.assign(new LastKnown(inner.handles), { list: () => inner.handles.list() });
  return {
    get description() {
      return inner.description;
    },
    traits: { ...inner.traits, listsFromMemory: true },
    pools: listed(pools, copies.pools),
    reservations: listed(reservations, copies.reservations),
    ipamConfiguration: {
      ...remembered(inner.ipamConfiguration, copies.configuration),
      get: async (key, options) => {
        const copy = copies.configuration;
        // Most clusters have no such object, and a copy knows that as well.
        const isKnown = options?.mayBeOld === true && copy?.isUsable === true;
        return isKnown ? fromCopy(copy, key) : inner.ipamConfiguration.get(key, options);
      },
    },
    blocks: Object.assign(new LastKnown(blocks), { list: () => blocks.list(), listCidrs: () => blocks.listCidrs() }),
    affinities: new OwnAffinities(inner.affinities, copies.affinities),
    handles,
    endpoints: inner.endpoints,
    records: inner.records,
    profiles: inner.profiles,
    nodes: reader(inner.nodes, copies.nodes),
    namespaces: reader(inner.namespaces, copies.namespaces),
    clusterInformation: readiness(inner.clusterInformation, copies.clusterInformation),
    get core() {
      return core();
    },
    get virtualMachines() {
      return inner.virtualMachines;
    },
    hasMadeHandle: (handle) => handles.wasCreatedHere(handle),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
}

interface Listed<T> extends Collection<string, T> {
  list(options?: ListOptions): Promise<readonly Versioned<T>[]>;
}

function listed<T>(inner: Listed<T>, copy: Copy<T> | undefined): Listed<T> {
  return {
    ...remembered(inner, copy),
    list: async (options) => (options?.mayBeOld === true ? allFromCopy(copy) : undefined) ?? inner.list(options),
  };
}

function remembered<K extends string, T>(inner: Collection<K, T>, copy: Copy<T> | undefined): Collection<K, T> {
  return {
    ...reader(inner, copy),
    create: (key, value) => inner.create(key, value),
    update: (key, value, revision) => inner.update(key, value, revision),
    delete: (key, revision) => inner.delete(key, revision),
  };
}

function reader<K extends string, T>(inner: Reader<K, T>, copy: Copy<T> | undefined): Reader<K, T> {
  return {
    get: async (key: K, options?: ReadOptions) => (options?.mayBeOld === true ? fromCopy(copy, key) : undefined) ?? inner.get(key, options),
  };
}

/**
 * Trusts a copy that says that the cluster is ready, and asks the store if it says otherwise. A pause is a barrier: unlike other copies,
 * this one does not count while its watch is being renewed.
 */
function readiness(
  inner: Collection<"default", ClusterInformation>,
  copy: FollowedCopy<ClusterInformation> | undefined,
): Collection<"default", ClusterInformation> {
  return {
    ...remembered(inner, undefined),
    async get(key, options) {
      const known = copy?.state.followedSince === undefined ? undefined : fromCopy(copy, key);
      return known?.value.datastoreReady === true ? known : inner.get(key, options);
    },
  };
}

/** Pods whose records may be on their way through the watch. */
const MOST_WRITTEN = 4096;

/** Kubernetes' own objects, as watches have them. */
export interface CoreCopies {
  readonly pods: ResourceCache<Watched<Pod>>;
  readonly nodes: ResourceCache<Watched<ClusterNode>>;
  readonly namespaces: ResourceCache<Watched<Namespace>>;
}

type CachedFrom = { readonly [K in keyof CoreCopies]: Pick<CoreCopies[K], "isUsable" | "get" | "list"> };

/**
 * Reads pods, namespaces and nodes from their watches, and from the server what a watch does not have (A§11.4 step 4). Reads a pod whose
 * record this process has written from the server until the watch has the change.
 */
export class CachedCore implements KubernetesCore {
  readonly #inner: KubernetesCore;
  readonly #copies: CachedFrom;
  /** Records as they were written last; `undefined`: cleared. */
  readonly #written = new RecentMap<string, RecordedAddresses | undefined>(MOST_WRITTEN);

  constructor(inner: KubernetesCore, copies: CachedFrom) {
    this.#inner = inner;
    this.#copies = copies;
  }

  /** Reads a pod. A copy with another UID than the call's is old, whatever the watch says. */
  async pod(key: NamespacedName, { mayBeOld = false, uid }: PodReadOptions = {}): Promise<Pod | undefined> {
    const known = mayBeOld ? this.#podFromWatch(keyOf(key)) : undefined;
    const isOfCall = known !== undefined && (uid === undefined || isPodOfUid(known, uid));
    return isOfCall ? known : this.#inner.pod(key);
  }

  async namespace(name: string) {
    return fromCopy(this.#copies.namespaces, name)?.value ?? this.#inner.namespace(name);
  }

  async node(name: string) {
    return fromCopy(this.#copies.nodes, name)?.value ?? this.#inner.node(name);
  }

  serverVersion(timeoutMs: number): Promise<string> {
    return this.#inner.serverVersion(timeoutMs);
  }

  /** Wraps the records so that it notes what is written. */
  noting(records: EndpointRecords): EndpointRecords {
    return {
      read: (key) => records.read(key),
      write: async (endpoint, workload) => {
        this.#note(endpoint, recordOf(endpoint));
        await records.write(endpoint, workload);
      },
      clear: async (key, containerId) => {
        const outcome = await records.clear(key, containerId);
        if (outcome === "cleared") this.#note(key, undefined);
        return outcome;
      },
    };
  }

  #podFromWatch(key: string): Pod | undefined {
    const pods = this.#copies.pods;
    const pod = pods.isUsable ? pods.get(key)?.stored.value : undefined;
    if (pod === undefined || !this.#written.has(key)) return pod;
    if (!Bun.deepEquals(recordOfPod(pod), this.#written.get(key))) return undefined;
    this.#written.delete(key);
    return pod;
  }

  #note(endpoint: EndpointKey, record: RecordedAddresses | undefined): void {
    const pod = podOf(endpoint);
    if (pod !== undefined) this.#written.set(keyOf(pod), record);
  }
}

function recordOf({ containerID, ipNetworks }: WorkloadEndpoint): RecordedAddresses | undefined {
  return ipNetworks.length === 0 ? undefined : { containerID, ipNetworks };
}

function keyOf({ namespace, name }: NamespacedName): string {
  return `${namespace}/${name}`;
}
