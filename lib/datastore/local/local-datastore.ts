/** The local driver of the datastore port: one SQLite file that many short processes share (design, decisions). */

import type { NamespacedName } from "../../kubernetes/objects.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/workload-endpoint.ts";
import type {
  AffinityKey,
  BlockAffinities,
  BlockOwner,
  Blocks,
  Collection,
  Datastore,
  Pools,
  Versioned,
  VirtualMachines,
  WorkloadEndpoints,
} from "../datastore.ts";
import { NO_PROFILES } from "../datastore.ts";
import { ObjectRecords } from "../endpoint-records.ts";
import type { Block, BlockAffinity, ClusterInformation, IPPool, LabelledObject, OwnedObject } from "../resources.ts";
import { LOCAL_TRAITS } from "../traits.ts";
import {
  affinityCodec,
  blockCodec,
  clusterInformationCodec,
  configurationCodec,
  endpointCodec,
  handleCodec,
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
import { LocalCollection } from "./local-collection.ts";
import { ObjectStore } from "./object-store.ts";

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
      /** Whether the store holds objects of virtual machines. */
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
      const stored = this.readAll();
      for (const pool of decide(stored.map(({ value }) => value))) {
        const there = stored.find(({ value }) => value.name === pool.name);
        if (there === undefined) this.store.create("pool", pool.name, this.encode(pool));
        else this.store.update("pool", pool.name, this.encode(pool), there.revision);
      }
    });
  }
}

class LocalBlocks extends LocalCollection<string, Block> implements Blocks {
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

  async listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.readAll();
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
