/** The Kubernetes driver of the datastore port: Calico's custom resources, in either group, and pods as endpoints. */
import type { Environment } from "../../cni/environment.ts";
import type { NetworkConfig } from "../../config/network-config.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { openApiClient } from "../../kubernetes/client/client.ts";
import type { AffinityKey, BlockAffinities, BlockOwner, Blocks, Datastore, ListOptions, Pools, Versioned } from "../datastore.ts";
import { NO_PROFILES } from "../profiles.ts";
import { reconcilePools } from "../reconcile-pools.ts";
import type { Block, BlockAffinity, IPPool, LabelledObject } from "../resources.ts";
import { readBlocksWithRoom } from "../room.ts";
import { KUBERNETES_TRAITS } from "../traits.ts";
import { affinityCodec, affinitySelector, UNLABELLED_SELECTOR } from "./codecs/affinity-codec.ts";
import { blockCodec } from "./codecs/block-codec.ts";
import { clusterInformationCodec, configurationCodec, reservationCodec } from "./codecs/cluster-codecs.ts";
import { handleCodec } from "./codecs/handle-codec.ts";
import { poolCodec } from "./codecs/pool-codec.ts";
import { ApiCore } from "./core/api-core.ts";
import type { KubernetesCore } from "./core/core.ts";
import { PodEndpoints } from "./endpoints.ts";
import { type ApiGroup, configuredGroup, discoverGroup } from "./group.ts";
import { PodRecords } from "./pod-record.ts";
import { ResourceApi } from "./resource-api.ts";
import { type OnDamaged, ResourceCollection } from "./resource-collection.ts";
import { kubernetesVirtualMachines } from "./virtual-machines.ts";

/** The port, and the objects of Kubernetes itself over the same connection. */
export interface KubernetesDatastore extends Datastore {
  readonly core: KubernetesCore;
}

export interface KubernetesOptions {
  /** Absent: the server is asked at the first request for a custom resource. */
  readonly group?: ApiGroup | undefined;
  /** Told of each object that a list leaves out because it cannot be read. */
  readonly onDamaged?: OnDamaged;
  /** Of host interfaces, `cali` when absent. */
  readonly interfacePrefix?: string | undefined;
}

/**
 * The connection is begun; nothing is asked of the server before the first operation.
 * @throws TortieError when the configuration leads to no API server
 */
export function openKubernetesDatastore(config: NetworkConfig, env: Environment, onDamaged?: OnDamaged): KubernetesDatastore {
  const interfacePrefix = env.FELIX_INTERFACEPREFIX?.split(",")[0] || undefined;
  const group = configuredGroup(config, env);
  const client = openApiClient(config, env);
  return kubernetesDatastore(client, { group, interfacePrefix, ...(onDamaged && { onDamaged }) });
}

/** The driver on a client that is open; closing the datastore closes it. */
export function kubernetesDatastore(client: ApiClient, options: KubernetesOptions = {}): KubernetesDatastore {
  const onDamaged: OnDamaged = options.onDamaged ?? (() => {});
  let known = options.group;
  let asking: Promise<ApiGroup> | undefined;
  const group = async (): Promise<ApiGroup> => {
    asking ??= known === undefined ? discoverGroup(client) : Promise.resolve(known);
    known = await asking;
    return known;
  };
  const api = new ResourceApi(client, group);
  const core = new ApiCore(client);
  const affinities = new Affinities(api, affinityCodec, onDamaged);
  return {
    get description() {
      return `Kubernetes API server ${client.server}, group ${known ?? "not known yet"}`;
    },
    core,
    traits: KUBERNETES_TRAITS,
    pools: new PoolObjects(api, poolCodec, onDamaged),
    reservations: new ResourceCollection(api, reservationCodec, onDamaged),
    ipamConfiguration: new ResourceCollection(api, configurationCodec, onDamaged),
    blocks: new BlockObjects(api, affinities, onDamaged),
    affinities,
    handles: new ResourceCollection(api, handleCodec, onDamaged),
    endpoints: new PodEndpoints(core, onDamaged, options.interfacePrefix),
    records: new PodRecords(core),
    profiles: NO_PROFILES,
    nodes: { get: async (name) => labelled(await core.versionedNode(name)) },
    namespaces: { get: async (name) => labelled(await core.versionedNamespace(name)) },
    clusterInformation: new ResourceCollection(api, clusterInformationCodec, onDamaged),
    virtualMachines: kubernetesVirtualMachines(core),
    async [Symbol.asyncDispose]() {
      client.close();
    },
  };
}

class PoolObjects extends ResourceCollection<string, IPPool> implements Pools {
  async reconcile(decide: (stored: readonly IPPool[]) => readonly IPPool[]): Promise<void> {
    await reconcilePools(this, decide);
  }
}

class BlockObjects extends ResourceCollection<string, Block> implements Blocks {
  readonly #affinities: BlockAffinities;

  constructor(api: ResourceApi, affinities: BlockAffinities, onDamaged: OnDamaged) {
    super(api, blockCodec, onDamaged);
    this.#affinities = affinities;
  }

  listWithRoom(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<Block>[]> {
    return readBlocksWithRoom({ affinities: this.#affinities, blocks: this }, owner, family);
  }
}

class Affinities extends ResourceCollection<AffinityKey, BlockAffinity> implements BlockAffinities {
  /** By the labels, which are digests: what they find is compared with what was meant (I§2.3). */
  async listByOwner(owner: BlockOwner, family: 4 | 6, options?: ListOptions): Promise<readonly Versioned<BlockAffinity>[]> {
    const found = await this.listSelected(affinitySelector(owner, family), options);
    return found.filter(
      ({ value }) => value.owner.name === owner.name && value.owner.type === owner.type && value.cidr.includes(":") === (family === 6),
    );
  }

  listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.list();
  }

  listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.listSelected(UNLABELLED_SELECTOR);
  }
}

function labelled(object: Versioned<LabelledObject> | undefined): Versioned<LabelledObject> | undefined {
  return object && { value: { name: object.value.name, labels: object.value.labels }, revision: object.revision };
}
