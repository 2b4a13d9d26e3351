/** Lists what a migration moves, in the order of writing: what others refer to comes first. Kinds differ in their keys and values only. */

import { type ForeignFields, keepsForeignFields } from "../lib/datastore/calico/stored-kind.ts";
import type { Collection, Datastore, Traits, Versioned } from "../lib/datastore/datastore.ts";
import type { AllocationAttribute, Block, BlockAffinity, IPPool, IpamConfiguration } from "../lib/datastore/resources.ts";
import type { EndpointKey, WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { podEndpointKey } from "../lib/workload/endpoint.ts";

/** Says what the two stores are like. */
export interface Sides {
  readonly source: Traits;
  readonly target: Traits;
}

export interface StoredObject {
  /** The same in both stores. */
  readonly id: string;
  /** For comparing. Empty: there is a place for the object and nothing in it, as in a pod without the annotations. */
  readonly text: string;
  readonly revision: string;
  /** Fields beyond the model, of stores that keep them. */
  readonly foreign: ForeignFields | undefined;
  /** Writes this object to the other store, which has none of that id. */
  create(target: Datastore): Promise<void>;
  /** Writes this object over the one that the other store has at that revision. */
  replace(target: Datastore, revision: string): Promise<void>;
  /** Removes this object from its own store. */
  remove(): Promise<void>;
}

export interface KindOfObject {
  /** For people, in the plural: "pools". */
  readonly name: string;
  read(store: Datastore, sides: Sides): Promise<readonly StoredObject[]>;
  /** An object can only be written where the target has a place for it. */
  readonly needsPlace: (sides: Sides) => boolean;
  /** Objects of the target that the source does not have stand in its way. */
  readonly isExclusive: (sides: Sides) => boolean;
}

interface KindParts<K, T> {
  readonly name: string;
  readonly collection: (store: Datastore) => Collection<K, T>;
  readonly list: (store: Datastore) => Promise<readonly Versioned<T>[]>;
  /** Key to write to; also the id, as text. */
  readonly keyOf: (value: T, sides: Sides) => K;
  /** Text of the key; the key itself when absent. */
  readonly idOf?: (key: K) => string;
  /** What is moved of a value; all of it when absent. */
  readonly carried?: (value: T) => T;
  /** What is compared of a carried value; all of it when absent. */
  readonly compared?: (value: T, sides: Sides) => unknown;
  /** Tells whether the object is only a place. */
  readonly isVacant?: (value: T, sides: Sides) => boolean;
  readonly needsPlace?: (sides: Sides) => boolean;
  readonly isExclusive?: (sides: Sides) => boolean;
}

function kindOfObject<K, T>(parts: KindParts<K, T>): KindOfObject {
  const { idOf = String, carried = (value) => value, compared = (value) => value, isVacant = () => false, collection } = parts;
  return {
    name: parts.name,
    needsPlace: parts.needsPlace ?? (() => false),
    isExclusive: parts.isExclusive ?? (() => true),
    async read(store, sides) {
      return (await parts.list(store)).map(({ value: stored, revision }) => {
        const value = carried(stored);
        const key = parts.keyOf(value, sides);
        const from = collection(store);
        const foreign = keepsForeignFields<K, T>(from) ? from.foreignFields(key, revision) : undefined;
        return {
          id: idOf(key),
          text: isVacant(value, sides) ? "" : canonicalText(compared(value, sides)),
          revision,
          foreign,
          async create(target) {
            const to = collection(target);
            if (foreign !== undefined && keepsForeignFields<K, T>(to)) await to.createWith(key, value, foreign);
            else await to.create(key, value);
          },
          async replace(target, at) {
            await collection(target).update(key, value, at);
          },
          remove: () => collection(store).delete(key, revision),
        };
      });
    },
  };
}

/** Drops deletion and `Allocatable`, which belong to one store's controllers: a pool that is being deleted gives no addresses in any store. */
function carriedPool({ allocatable: _, deleting, ...pool }: IPPool): IPPool {
  return { ...pool, disabled: pool.disabled || deleting, deleting: false };
}

/** Spreads the block, because some stores decode parts of a block at first use. */
function carriedBlock(block: Block): Block {
  const { affinityClaimTime, ...others } = { ...block };
  return { ...others, ...(affinityClaimTime ? { affinityClaimTime } : {}), attributes: block.attributes.map(carriedAttribute) };
}

/** Leaves out an owner without attributes, as some stores do and others do not. */
function carriedAttribute({ handleId, activeOwner, alternateOwner, releasedAt }: AllocationAttribute): AllocationAttribute {
  return {
    ...(handleId === undefined ? {} : { handleId }),
    ...(isEmpty(activeOwner) ? {} : { activeOwner }),
    ...(isEmpty(alternateOwner) ? {} : { alternateOwner }),
    ...(releasedAt === undefined ? {} : { releasedAt }),
  };
}

function isEmpty(owner: Readonly<Record<string, string>> | undefined): owner is undefined {
  return owner === undefined || Object.keys(owner).length === 0;
}

/** Labels are each store's own. */
function carriedAffinity(affinity: BlockAffinity): BlockAffinity {
  return { ...affinity, labelled: true };
}

/** Drops what a view of a pod adds, which is not stored. */
function carriedEndpoint({ annotations: _, qosControls: __, isClaimed: ___, ...endpoint }: WorkloadEndpoint): WorkloadEndpoint {
  return endpoint;
}

/** Returns what a record in annotations holds. */
function recordOfEndpoint({ containerID, ipNetworks }: WorkloadEndpoint): object {
  return { containerID, ipNetworks };
}

/** Writes text with sorted members; `undefined` ones left out, all digits of long integers kept. */
function canonicalText(value: unknown): string {
  return JSON.stringify(ordered(value));
}

function ordered(value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, ordered(member)]));
}

const pools = kindOfObject({
  name: "pools",
  collection: (store) => store.pools,
  list: (store) => store.pools.list(),
  keyOf: ({ name }) => name,
  carried: carriedPool,
});

const reservations = kindOfObject({
  name: "reservations",
  collection: (store) => store.reservations,
  list: (store) => store.reservations.list(),
  keyOf: ({ name }) => name,
});

const configuration = kindOfObject<"default", IpamConfiguration>({
  name: "IPAM configuration",
  collection: (store) => store.ipamConfiguration,
  list: readConfiguration,
  keyOf: () => "default",
});

const handles = kindOfObject({
  name: "handles",
  collection: (store) => store.handles,
  list: (store) => store.handles.list(),
  keyOf: ({ id }) => id,
});

const blocks = kindOfObject({
  name: "blocks",
  collection: (store) => store.blocks,
  list: (store) => store.blocks.list(),
  keyOf: ({ cidr }) => cidr,
  carried: carriedBlock,
});

const affinities = kindOfObject({
  name: "affinities",
  collection: (store) => store.affinities,
  list: (store) => store.affinities.listAll(),
  keyOf: ({ owner, cidr }) => ({ owner, cidr }),
  idOf: ({ owner, cidr }) => `${cidr} of ${owner.type} ${owner.name}`,
  carried: carriedAffinity,
});

/** Moves endpoints. In Kubernetes an endpoint is its pod, which the migration can annotate and cannot make. */
const endpoints = kindOfObject<EndpointKey, WorkloadEndpoint>({
  name: "endpoints",
  collection: (store) => store.endpoints,
  list: (store) => store.endpoints.list(),
  keyOf: endpointKey,
  idOf: ({ namespace, name }) => `${namespace}/${name}`,
  carried: carriedEndpoint,
  compared: (endpoint, sides) => (hasPods(sides) ? recordOfEndpoint(endpoint) : endpoint),
  isVacant: ({ containerID, ipNetworks }, sides) => hasPods(sides) && (containerID === "" || ipNetworks.length === 0),
  needsPlace: ({ target }) => target.endpointsAre === "annotations",
  isExclusive: ({ target }) => target.endpointsAre === "objects",
});

/** Lists everything that decides about addresses, and who has them. */
export const KINDS: readonly KindOfObject[] = [pools, reservations, configuration, handles, blocks, affinities, endpoints];

function hasPods({ source, target }: Sides): boolean {
  return source.endpointsAre === "annotations" || target.endpointsAre === "annotations";
}

/** Makes the key of an endpoint; that of a pod may be called otherwise in a store of objects (C§2.1 step 13). */
function endpointKey({ namespace, name, node, orchestrator, pod }: WorkloadEndpoint, sides: Sides): EndpointKey {
  if (sides.target.endpointsAre !== "annotations" || orchestrator !== "k8s" || node === "" || pod === "") return { namespace, name };
  return podEndpointKey(node, { namespace, name: pod });
}

async function readConfiguration({ ipamConfiguration }: Datastore): Promise<readonly Versioned<IpamConfiguration>[]> {
  const found = await ipamConfiguration.get("default");
  return found === undefined ? [] : [found];
}
