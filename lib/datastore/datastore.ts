/**
 * Defines the datastore port (design §6): typed collections, compare-and-swap on an opaque revision, a closed set of failures.
 * The allocator is written once on this port and never asks which driver it has.
 */

import type { DatastoreType } from "../config/decode.ts";
import type { IdentityRecord } from "../identity/identity-object.ts";
import type { ClusterNode, Namespace, NamespacedName, Pod } from "../kubernetes/objects.ts";
import type { EndpointKey, WorkloadEndpoint } from "../workload/endpoint.ts";
import type { NameRules } from "../workload/identity.ts";
import type {
  Block,
  BlockAffinity,
  BlockOwner,
  ClusterInformation,
  Handle,
  IPPool,
  IPReservation,
  IpamConfiguration,
  LabelledObject,
  OwnedObject,
} from "./resources.ts";

/** A value as it stood at one revision. Revisions are compared for equality only, never reused for another state of the same key. */
export interface Versioned<T> {
  readonly value: T;
  readonly revision: string;
}

/** How a read may be answered. */
export interface ReadOptions {
  /**
   * A store that remembers (`Traits.listsFromMemory`) may answer with an earlier state of the object: for a choice that a
   * compare-and-swap confirms. `undefined` comes from memory only where all objects of the kind are known. A conclusion that nothing is
   * to be done needs a fresh read.
   */
  readonly mayBeOld?: boolean;
}

export interface Reader<K, T> {
  /** `undefined` when there is no such object. */
  get(key: K, options?: ReadOptions): Promise<Versioned<T> | undefined>;
}

export interface Collection<K, T> extends Reader<K, T> {
  /** @throws DatastoreError `already-exists` */
  create(key: K, value: T): Promise<Versioned<T>>;
  /**
   * Replaces the whole object if it still is at `revision`. One that changes nothing may keep the revision.
   * @throws DatastoreError `not-found`, `conflict`: another writer has changed it, possibly after this very write, whose answer was lost
   */
  update(key: K, value: T, revision: string): Promise<Versioned<T>>;
  /** Removes the object if it still is at `revision`. @throws DatastoreError `conflict`, `not-found` */
  delete(key: K, revision: string): Promise<void>;
}

/** How a list may be answered. */
export interface ListOptions {
  /**
   * A store that answers from memory (`Traits.listsFromMemory`) need not make sure that it has seen every write: for choices that might
   * as well have been made some milliseconds earlier, or that a compare-and-swap confirms.
   */
  readonly mayBeOld?: boolean;
}

export interface ListedCollection<K, T> extends Collection<K, T> {
  /** Lists every object of the cluster, in the order of keys or names (I§2.7). */
  list(options?: ListOptions): Promise<readonly Versioned<T>[]>;
}

/** Key of a block affinity. `cidr` is canonical text. */
export interface AffinityKey {
  readonly owner: BlockOwner;
  readonly cidr: string;
}

export interface BlockAffinities extends Collection<AffinityKey, BlockAffinity> {
  /** Lists every affinity of one owner and family, in key order, whatever its state (I§2.3). */
  listByOwner(owner: BlockOwner, family: 4 | 6, options?: ListOptions): Promise<readonly Versioned<BlockAffinity>[]>;
  listAll(): Promise<readonly Versioned<BlockAffinity>[]>;
  /** Lists those that lack one of the look-up labels, which `upgradeHost` writes (I§1.8). */
  listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]>;
}

export interface Blocks extends ListedCollection<string, Block> {
  /** CIDRs of every block of the cluster, those that cannot be decoded too. Always fresh. */
  listCidrs(): Promise<readonly string[]>;
  /**
   * Those of one owner and family that list a free ordinal, or have one in cooldown, in key order; all others of the owner are full. Only
   * where `Traits.findsRoom` says so.
   */
  listWithRoom?(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<Block>[]>;
}

export type Handles = ListedCollection<string, Handle>;

export interface WorkloadEndpoints extends ListedCollection<EndpointKey, WorkloadEndpoint> {
  /** Endpoints of a namespace whose name starts with `namePrefix` (C§2.1 step 12). */
  listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]>;
}

/** What the record of an endpoint says of its addresses: they are /32 and /128, in the order of the result. */
export type RecordedAddresses = Pick<WorkloadEndpoint, "containerID" | "ipNetworks">;

/** `not-ours`: another container has written it since, or nobody has. `gone`: there is no such endpoint, or no such pod. */
export type Clearing = "cleared" | "not-ours" | "gone";

/** What an ADD has read of its workload before it writes the record. */
export interface WorkloadAsRead {
  /** Where records are annotations: a new pod of the same name is not written to. */
  readonly podUid?: string | undefined;
  /** Container of the record as it was. */
  readonly containerID?: string | undefined;
}

export interface EndpointRecords {
  /** Reads the record of any container of the workload; `undefined` when none has addresses. */
  read(key: EndpointKey): Promise<RecordedAddresses | undefined>;
  /**
   * Creates or replaces the record: the newest sandbox of a workload owns it. Repeating it is harmless. A write that fails leaves no
   * record of this container, unless there was one before.
   *
   * @throws TortieError `endpoint-contended`; DatastoreError
   */
  write(endpoint: WorkloadEndpoint, workload?: WorkloadAsRead): Promise<void>;
  /** Clears the record if it is this container's. Repeating it is harmless. @throws TortieError `endpoint-contended`; DatastoreError */
  clear(key: EndpointKey, containerId: string): Promise<Clearing>;
}

export interface Pools extends ListedCollection<string, IPPool> {
  /**
   * Reads every pool, and stores those that `decide` returns, new or changed, all in one transaction. What `decide` throws stores nothing.
   * Only where pools come from the network configuration (`Traits.poolsFrom`).
   */
  reconcile?(decide: (stored: readonly IPPool[]) => readonly IPPool[]): Promise<void>;
}

export type Reservations = ListedCollection<string, IPReservation>;

/** What tells a virtual machine's pod from an ordinary one (I§1.9): pods, and the objects of KubeVirt. */
export interface VirtualMachines {
  readonly pods: Reader<NamespacedName, OwnedObject>;
  /** `virtualmachineinstances.kubevirt.io`. */
  readonly instances: Reader<NamespacedName, OwnedObject>;
  /** `virtualmachines.kubevirt.io`. */
  readonly machines: Reader<NamespacedName, OwnedObject>;
}

export type Identities = ListedCollection<number, IdentityRecord>;

export interface Datastore extends AsyncDisposable {
  /** Words for messages: "local datastore /var/lib/tortie/tortie.db". */
  readonly description: string;
  readonly traits: Traits;
  readonly pools: Pools;
  readonly reservations: Reservations;
  /** The only key is "default" (I§2.6). */
  readonly ipamConfiguration: Collection<"default", IpamConfiguration>;
  readonly blocks: Blocks;
  readonly affinities: BlockAffinities;
  readonly handles: Handles;
  readonly endpoints: WorkloadEndpoints;
  /** The endpoints' records, as the main plugin writes them. */
  readonly records: EndpointRecords;
  readonly profiles: Profiles;
  /** Identities by their numbers, for agents to write; absent where the cluster's controller writes them. */
  readonly identities?: Identities;
  /** Labels of nodes and namespaces. `undefined` from a store without such objects means: exists, no labels. */
  readonly nodes: Reader<string, LabelledObject>;
  readonly namespaces: Reader<string, LabelledObject>;
  readonly clusterInformation: Collection<"default", ClusterInformation>;
  /** Empty where `traits.hasVirtualMachines` is false. */
  readonly virtualMachines: VirtualMachines;
  /** The objects of Kubernetes itself, where the datastore or what is configured beside it is an API server. */
  readonly core?: KubernetesCore;
}

/** Profiles of networks (C§2.7): what an endpoint may receive and send where no policy selects it. */

export interface Profile {
  /** The network's. Its label goes to every endpoint that has the profile. */
  readonly name: string;
  /** Who may send to the profile's endpoints; empty: any sender. */
  readonly ingressSelector: string;
}

export interface Profiles {
  /**
   * Makes the profile where no profile has its name; one that is there stays as it is. Not every store keeps profiles.
   * @throws DatastoreError
   */
  ensure(profile: Profile): Promise<void>;
}

/** Serves stores without profiles: without a cluster no program reads them, and in Kubernetes they follow from the pods. */
export const NO_PROFILES: Profiles = { ensure: async () => {} };

export interface PodReadOptions extends ReadOptions {
  /** The K8S_POD_UID of the call: what is known of another pod of that name does not count. */
  readonly uid?: string | undefined;
}

/** The port to the objects of Kubernetes itself: pods, namespaces, nodes. Failures are the datastore port's (DatastoreError). */
export interface KubernetesCore {
  /** Read afresh at every call, unless it may be old. `undefined` when there is no such pod. */
  pod(key: NamespacedName, options?: PodReadOptions): Promise<Pod | undefined>;
  /** Read once for all requests within a second; `undefined` when it does not exist. */
  namespace(name: string): Promise<Namespace | undefined>;
  /** Reads a node as `namespace` does. */
  node(name: string): Promise<ClusterNode | undefined>;
  /** `gitVersion` of GET /version. */
  serverVersion(timeoutMs: number): Promise<string>;
}

/**
 * Tells as data what drivers differ in beyond the port's promises: a flow asks for a trait, never for the name of a driver. The traits are
 * known before a datastore is opened.
 */
export interface Traits extends NameRules {
  /**
   * Who makes the pools. `netconf`: the network configuration of each call names them, and the node is alone with its store. `cluster`:
   * an administrator, in a store that many nodes share and that ClusterInformation can pause.
   */
  readonly poolsFrom: "netconf" | "cluster";
  /** Nodes and namespaces are objects: one that is not found does not exist. Otherwise one that is not found exists, without labels. */
  readonly nodesAreObjects: boolean;
  /** Handle ids that differ in case only are one object, which has the id of the first writer (I§2.2). */
  readonly foldsHandleCase: boolean;
  /** There is an index of the blocks that have room: `Blocks.listWithRoom`. */
  readonly findsRoom: boolean;
  /** Lists with `mayBeOld` cost less than others, and so may reads. */
  readonly listsFromMemory: boolean;
  /** Pods may belong to virtual machines, whose objects can be read. Without them every pod is an ordinary one. */
  readonly hasVirtualMachines: boolean;
  /** `annotations`: endpoints are a view of pods, of which only annotations can be written, and whose deletion ends the endpoint. */
  readonly endpointsAre: "objects" | "annotations";
}

export const LOCAL_TRAITS: Traits = {
  poolsFrom: "netconf",
  takesNames: "any",
  nodesAreObjects: false,
  foldsHandleCase: false,
  findsRoom: true,
  listsFromMemory: false,
  hasVirtualMachines: false,
  endpointsAre: "objects",
};

export const KUBERNETES_TRAITS: Traits = {
  poolsFrom: "cluster",
  takesNames: "handles",
  nodesAreObjects: true,
  // The object's name is the id in lower case.
  foldsHandleCase: true,
  findsRoom: false,
  // The API server's watch cache, in front of etcd.
  listsFromMemory: true,
  hasVirtualMachines: true,
  endpointsAre: "annotations",
};

export const ETCD_TRAITS: Traits = {
  poolsFrom: "cluster",
  takesNames: "fields",
  nodesAreObjects: true,
  foldsHandleCase: false,
  findsRoom: false,
  listsFromMemory: false,
  // Where an API server is configured beside it: the open datastore says so.
  hasVirtualMachines: false,
  endpointsAre: "objects",
};

const TRAITS: Readonly<Record<DatastoreType, Traits>> = { local: LOCAL_TRAITS, kubernetes: KUBERNETES_TRAITS, etcdv3: ETCD_TRAITS };

/** Looks up the traits of the datastore that `chooseDatastore` has chosen, open or not. */
export function traitsOf(type: DatastoreType): Traits {
  return TRAITS[type];
}
