import type { Collection, Datastore, KubernetesCore, ListOptions, Reader, ReadOptions, Versioned } from "../../lib/datastore/datastore.ts";
import type { ClusterInformation } from "../../lib/datastore/resources.ts";
import { allFromCopy, type Copies, type Copy, type FollowedCopy, fromCopy, LastKnown, OwnAffinities } from "./read-your-writes.ts";

export interface CachedDatastore extends Datastore {
  /** Kubernetes' own objects, where there is a way to them. */
  readonly core: KubernetesCore | undefined;
  /** Whether this process made the handle of this id and, as far as it knows, no other process has written it since. */
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
        // Most clusters have none: that is known as well.
        const isKnown = options?.mayBeOld === true && copy?.isUsable === true;
        return isKnown ? fromCopy(copy, key) : inner.ipamConfiguration.get(key, options);
      },
    },
    blocks: Object.assign(new LastKnown(blocks), { list: () => blocks.list() }),
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
 * A cluster that is ready need not be asked each time; one that is said not to be is asked. A pause is a barrier: unlike other copies, this
 * one does not count while its watch is being renewed.
 */
function readiness(
  inner: Collection<"default", ClusterInformation>,
  copy: FollowedCopy<ClusterInformation> | undefined,
): Collection<"default", ClusterInformation> {
  return {
    create: (key, value) => inner.create(key, value),
    update: (key, value, revision) => inner.update(key, value, revision),
    delete: (key, revision) => inner.delete(key, revision),
    async get(key, options) {
      const known = copy?.state.followedSince === undefined ? undefined : fromCopy(copy, key);
      return known?.value.datastoreReady === true ? known : inner.get(key, options);
    },
  };
}
