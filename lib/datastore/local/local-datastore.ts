/** Implements the datastore port on this machine: one SQLite file that many short processes share (design, decisions). */
import { cidrOfKey } from "../../addresses/address.ts";
import type { NamespacedName } from "../../kubernetes/objects.ts";
import { RecentMap } from "../../system/recent-map.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/endpoint.ts";
import type {
  AffinityKey,
  BlockAffinities,
  Blocks,
  Collection,
  Datastore,
  Pools,
  Versioned,
  VirtualMachines,
  WorkloadEndpoints,
} from "../datastore.ts";
import { LOCAL_TRAITS, NO_PROFILES } from "../datastore.ts";
import { ObjectRecords } from "../endpoint-records.ts";
import type { Block, BlockAffinity, BlockOwner, ClusterInformation, IPPool, LabelledObject, OwnedObject } from "../resources.ts";
import type { LocalCodec } from "./codecs.ts";
import {
  affinityCodec,
  blockCodec,
  clusterInformationCodec,
  configurationCodec,
  endpointCodec,
  handleCodec,
  identityCodec,
  labelledCodec,
  namespacedKey,
  OWNED_KINDS,
  ownedCodec,
  ownerPrefix,
  poolCodec,
  reservationCodec,
} from "./codecs.ts";
import type { ConnectionOptions } from "./connection.ts";
import { describeFile } from "./file.ts";
import type { StoredObject } from "./object-store.ts";
import { ObjectStore } from "./object-store.ts";

/** Lists that are remembered: of a node's own blocks in both families, of everything, and a few more. */
const MOST_LISTS = 16;

export class LocalCollection<K, T> implements Collection<K, T> {
  protected readonly store: ObjectStore;
  readonly #codec: LocalCodec<K, T>;
  /**
   * The last list of each prefix, from the second time it is asked for: one call of a plugin lists once, an agent again and again. The
   * prefix that was asked for longest ago is forgotten first.
   */
  readonly #lists = new RecentMap<string, { readonly stamp: string; readonly rows: readonly Versioned<T>[] } | undefined>(MOST_LISTS);

  constructor(store: ObjectStore, codec: LocalCodec<K, T>) {
    this.store = store;
    this.#codec = codec;
  }

  async get(key: K): Promise<Versioned<T> | undefined> {
    const stored = this.store.get(this.#codec.kind, this.#codec.keyOf(key));
    return stored && this.decode(stored);
  }

  async list(): Promise<readonly Versioned<T>[]> {
    return this.readPrefix("");
  }

  async create(key: K, value: T): Promise<Versioned<T>> {
    return { value, revision: this.store.create(this.#codec.kind, this.#codec.keyOf(key), this.#codec.encode(value)) };
  }

  async update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    return { value, revision: this.store.update(this.#codec.kind, this.#codec.keyOf(key), this.#codec.encode(value), revision) };
  }

  async delete(key: K, revision: string): Promise<void> {
    this.store.delete(this.#codec.kind, this.#codec.keyOf(key), revision);
  }

  /** Reads nothing when nothing of the kind has changed since the last time, and else only what has. */
  protected readPrefix(prefix: string): readonly Versioned<T>[] {
    const { kind } = this.#codec;
    if (!this.#lists.has(prefix)) {
      this.#lists.set(prefix, undefined);
      return this.store.list(kind, prefix).map((stored) => this.decode(stored));
    }
    // The stamp is taken first: what changes meanwhile only costs another read.
    const stamp = this.store.stamp(kind);
    const last = this.#lists.get(prefix);
    if (last?.stamp === stamp) return last.rows;
    const rows = last === undefined ? this.store.list(kind, prefix).map((stored) => this.decode(stored)) : this.#refresh(prefix, last.rows);
    this.#lists.set(prefix, { stamp, rows });
    return rows;
  }

  /** A revision never stands for two states of the store, so that an object at a known one need not be read again. */
  #refresh(prefix: string, known: readonly Versioned<T>[]): readonly Versioned<T>[] {
    const { kind } = this.#codec;
    const byRevision = new Map(known.map((object) => [object.revision, object]));
    return this.store.snapshot(() =>
      this.store.listRevisions(kind, prefix).flatMap(({ key, revision }) => {
        const same = byRevision.get(revision);
        if (same !== undefined) return [same];
        const changed = this.store.get(kind, key);
        return changed === undefined ? [] : [this.decode(changed)];
      }),
    );
  }

  protected decode(stored: StoredObject): Versioned<T> {
    const refuse = (cause: unknown): never => this.store.refuse(this.#codec.kind, stored.key, cause);
    try {
      return { value: this.#codec.decode(stored, refuse), revision: stored.revision };
    } catch (error) {
      return refuse(error);
    }
  }
}

/** The port, and what only an operator or a test writes here: in a cluster those objects belong to others. */
export interface LocalDatastore extends Datastore {
  readonly nodes: Collection<string, LabelledObject>;
  readonly namespaces: Collection<string, LabelledObject>;
  readonly clusterInformation: Collection<"default", ClusterInformation>;
  readonly virtualMachines: { readonly [K in keyof VirtualMachines]: Collection<NamespacedName, OwnedObject> };
}

/**
 * Opens the local datastore at `path`, made at first use.
 * An absent node, namespace or ClusterInformation counts as there, without labels, and ready: no server says otherwise.
 *
 * @throws TortieError `datastore-damaged`, `datastore-foreign`, `datastore-newer`: the file is untouched
 * @throws DatastoreError `unavailable`
 */
export function openLocalDatastore(path: string, options: ConnectionOptions = {}): LocalDatastore {
  const store = new ObjectStore(path, options);
  const owned = (kind: (typeof OWNED_KINDS)[number]) => new LocalCollection(store, ownedCodec(kind));
  const endpoints = new LocalEndpoints(store, endpointCodec);
  return {
    description: describeFile(path),
    traits: {
      ...LOCAL_TRAITS,
      /** Tells whether the store holds objects of virtual machines. */
      get hasVirtualMachines() {
        return OWNED_KINDS.some((kind) => store.listRevisions(kind, "").length > 0);
      },
    },
    pools: new LocalPools(store, poolCodec),
    reservations: new LocalCollection(store, reservationCodec),
    ipamConfiguration: new LocalCollection(store, configurationCodec),
    blocks: new LocalBlocks(store, blockCodec),
    affinities: new LocalAffinities(store, affinityCodec),
    handles: new LocalCollection(store, handleCodec),
    endpoints,
    records: new ObjectRecords(endpoints),
    profiles: NO_PROFILES,
    identities: new LocalCollection(store, identityCodec),
    nodes: new LocalCollection(store, labelledCodec("node")),
    namespaces: new LocalCollection(store, labelledCodec("namespace")),
    clusterInformation: new LocalCollection(store, clusterInformationCodec),
    virtualMachines: {
      pods: owned("pod"),
      instances: owned("virtual-machine-instance"),
      machines: owned("virtual-machine"),
    },
    async [Symbol.asyncDispose]() {
      store[Symbol.dispose]();
    },
  };
}

class LocalPools extends LocalCollection<string, IPPool> implements Pools {
  async reconcile(decide: (stored: readonly IPPool[]) => readonly IPPool[]): Promise<void> {
    this.store.transaction(() => {
      const stored = this.readPrefix("");
      for (const pool of decide(stored.map(({ value }) => value))) {
        const there = stored.find(({ value }) => value.name === pool.name);
        if (there === undefined) this.store.create("pool", pool.name, poolCodec.encode(pool));
        else this.store.update("pool", pool.name, poolCodec.encode(pool), there.revision);
      }
    });
  }
}

class LocalBlocks extends LocalCollection<string, Block> implements Blocks {
  async listCidrs(): Promise<readonly string[]> {
    return this.store.listRevisions("block", "").map(({ key }) => cidrOfKey(key));
  }

  async listWithRoom(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<Block>[]> {
    return this.store.listWithRoom(ownerPrefix(owner, family)).map((stored) => this.decode(stored));
  }
}

class LocalAffinities extends LocalCollection<AffinityKey, BlockAffinity> implements BlockAffinities {
  async listByOwner(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<BlockAffinity>[]> {
    const found = this.readPrefix(ownerPrefix(owner, family));
    // A node name with slashes could make one owner's keys begin like another's.
    return found.filter(({ value }) => value.owner.name === owner.name && value.cidr.includes(":") === (family === 6));
  }

  listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.list();
  }

  /** Look-ups go by the key, so there are no labels that could be missing. */
  async listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]> {
    return [];
  }
}

class LocalEndpoints extends LocalCollection<EndpointKey, WorkloadEndpoint> implements WorkloadEndpoints {
  async listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return this.readPrefix(namespacedKey({ namespace, name: namePrefix }));
  }
}
