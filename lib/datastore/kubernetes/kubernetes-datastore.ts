/** Implements the datastore port on Kubernetes: Calico's custom resources, in either group, and pods as endpoints. */
import { cidrOfKey } from "../../addresses/address.ts";
import type { Environment } from "../../cni/protocol.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { openApiClient } from "../../kubernetes/client/client.ts";
import { affinityCodec, affinitySelector, UNLABELLED_SELECTOR } from "../calico/affinity.ts";
import { blockCodec, handleCodec } from "../calico/block.ts";
import { type ApiGroup, configuredGroup, discoverGroup } from "../calico/codec.ts";
import { clusterInformationCodec, configurationCodec, poolCodec, reservationCodec } from "../calico/pool.ts";
import type { OnDamaged } from "../calico/stored-kind.ts";
import {
  type AffinityKey,
  type BlockAffinities,
  type Datastore,
  KUBERNETES_TRAITS,
  type KubernetesCore,
  type ListOptions,
  NO_PROFILES,
  type Versioned,
} from "../datastore.ts";
import type { Block, BlockAffinity, BlockOwner } from "../resources.ts";
import { ApiCore, kubernetesVirtualMachines } from "./api-core.ts";
import { PodEndpoints } from "./pod-endpoint.ts";
import { PodRecords } from "./pod-record.ts";
import { ResourceApi } from "./resource-api.ts";
import { ResourceCollection } from "./resource-collection.ts";

/** The port, and the objects of Kubernetes itself over the same connection. */
export interface KubernetesDatastore extends Datastore {
  readonly core: KubernetesCore;
}

export interface KubernetesOptions {
  /** Absent: the server is asked at the first request for a custom resource. */
  readonly group?: ApiGroup | undefined;
  /** Gets the error of each object that a list leaves out because it cannot be read. */
  readonly onDamaged?: OnDamaged | undefined;
  /** Begins the names of host interfaces, `cali` when absent. */
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
  return kubernetesDatastore(client, { group, interfacePrefix, onDamaged });
}

/** Makes the driver on a client that is open; closing the datastore closes it. */
export function kubernetesDatastore(client: ApiClient, options: KubernetesOptions = {}): KubernetesDatastore {
  const { onDamaged } = options;
  let known = options.group;
  let asking: Promise<ApiGroup> | undefined;
  const group = async (): Promise<ApiGroup> => {
    asking ??= known === undefined ? discoverGroup(client) : Promise.resolve(known);
    known = await asking;
    return known;
  };
  const api = new ResourceApi(client, group);
  const core = new ApiCore(client);
  return {
    get description() {
      return `Kubernetes API server ${client.server}, group ${known ?? "not known yet"}`;
    },
    core,
    traits: KUBERNETES_TRAITS,
    pools: new ResourceCollection(api, poolCodec, onDamaged),
    reservations: new ResourceCollection(api, reservationCodec, onDamaged),
    ipamConfiguration: new ResourceCollection(api, configurationCodec, onDamaged),
    blocks: new Blocks(api, blockCodec, onDamaged),
    affinities: new Affinities(api, affinityCodec, onDamaged),
    handles: new ResourceCollection(api, handleCodec, onDamaged),
    endpoints: new PodEndpoints(core, onDamaged, options.interfacePrefix),
    records: new PodRecords(core),
    profiles: NO_PROFILES,
    nodes: { get: (name) => core.versionedNode(name) },
    namespaces: { get: (name) => core.versionedNamespace(name) },
    clusterInformation: new ResourceCollection(api, clusterInformationCodec, onDamaged),
    virtualMachines: kubernetesVirtualMachines(core),
    async [Symbol.asyncDispose]() {
      client.close();
    },
  };
}

class Blocks extends ResourceCollection<string, Block> {
  async listCidrs(): Promise<readonly string[]> {
    return (await this.listNames()).map(cidrOfKey);
  }
}

class Affinities extends ResourceCollection<AffinityKey, BlockAffinity> implements BlockAffinities {
  /** Selects by the labels, which are digests: what they find is compared with what was meant (I§2.3). */
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
