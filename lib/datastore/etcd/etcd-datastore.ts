/**
 * Implements the datastore port on etcd: Calico's keys in etcd v3 (I§2.9, C§7.4), over the members' JSON gateways. Pods, namespaces and
 * virtual machines are read from a Kubernetes API server where one is configured beside it.
 */

import type { Environment } from "../../cni/protocol.ts";
import { isKubernetesConfigured } from "../../config/datastore-choice.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";
import { openApiClient } from "../../kubernetes/client/client.ts";
import type { NamespacedName } from "../../kubernetes/objects.ts";
import { once } from "../../system/waiting.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/endpoint.ts";
import { matchesEndpointName, parseWorkloadEndpointName } from "../../workload/names.ts";
import type { OnDamaged } from "../calico/stored-kind.ts";
import {
  type AffinityKey,
  type BlockAffinities,
  type Clearing,
  type Datastore,
  ETCD_TRAITS,
  type KubernetesCore,
  type Profile,
  type Profiles,
  type Reader,
  type Versioned,
  type WorkloadAsRead,
  type WorkloadEndpoints,
} from "../datastore.ts";
import { ObjectRecords } from "../endpoint-records.ts";
import { succeeds } from "../errors.ts";
import { ApiCore, kubernetesVirtualMachines } from "../kubernetes/api-core.ts";
import type { Block, BlockAffinity, BlockOwner, LabelledObject, OwnedObject } from "../resources.ts";
import {
  AFFINITIES,
  affinityCodec,
  affinityPrefix,
  blockCodec,
  clusterInformationResource,
  configurationCodec,
  endpointResource,
  handleCodec,
  identityCodec,
  isAffinityKey,
  nodeResource,
  poolResource,
  profileResource,
  reservationResource,
} from "./codecs.ts";
import { type EtcdAccess, EtcdCollection } from "./collection.ts";
import { EtcdClient, type EtcdClientOptions } from "./etcd-client.ts";
import { KeyValueStore } from "./key-value-store.ts";
import { MEMBER_MEMORY, memberMemory } from "./members.ts";
import { type EtcdSettings, resolveEtcdSettings } from "./settings.ts";

export interface EtcdOptions extends EtcdClientOptions {
  /** Gets the error of each object that a list leaves out because it cannot be read. */
  readonly onDamaged?: OnDamaged | undefined;
  /** Opens the way to the API server; absent where none is configured. */
  readonly openKubernetes?: (() => ApiClient) | undefined;
}

/** The port, and the objects of Kubernetes where there is an API server too. */
export interface EtcdDatastore extends Datastore {
  readonly nodes: EtcdCollection<string, LabelledObject>;
  /** Its first use reads the kubeconfig. @throws TortieError as `openApiClient` */
  readonly core: KubernetesCore | undefined;
}

export interface OpenEtcdOptions extends Pick<EtcdOptions, "onDamaged" | "around"> {
  /** Wraps the way to the API server, for callers that observe its requests. */
  readonly wrapApi?: (client: ApiClient) => ApiClient;
}

/**
 * Nothing is asked of any server before the first operation.
 * @throws TortieError `netconf-value` when the configuration leads to no etcd
 */
export function openEtcdDatastore(config: NetworkConfig, env: Environment, options: OpenEtcdOptions = {}): EtcdDatastore {
  const { wrapApi = (client) => client, ...rest } = options;
  const openKubernetes = isKubernetesConfigured(config, env) ? () => wrapApi(openApiClient(config, env)) : undefined;
  return etcdDatastore(resolveEtcdSettings(config.etcd, env), { ...rest, openKubernetes, memory: memberMemory(MEMBER_MEMORY) });
}

export function etcdDatastore(settings: EtcdSettings, options: EtcdOptions = {}): EtcdDatastore {
  const { onDamaged = () => {}, openKubernetes } = options;
  const client = new EtcdClient(settings, options);
  const access: EtcdAccess = { store: new KeyValueStore(client), onDamaged, user: client.user };
  const endpoints = new Endpoints(access, endpointResource);
  let api: ApiClient | undefined;
  const core =
    openKubernetes &&
    once(() => {
      api = openKubernetes();
      return new ApiCore(api);
    });
  return {
    description: `etcd ${client.servers}`,
    traits: { ...ETCD_TRAITS, hasVirtualMachines: core !== undefined },
    get core() {
      return core?.();
    },
    pools: new EtcdCollection(access, poolResource),
    reservations: new EtcdCollection(access, reservationResource),
    ipamConfiguration: new EtcdCollection(access, configurationCodec),
    blocks: new Blocks(access, blockCodec),
    affinities: new Affinities(access, affinityCodec),
    handles: new EtcdCollection(access, handleCodec),
    endpoints,
    records: new EtcdRecords(endpoints),
    profiles: new ProfileObjects(access, profileResource),
    identities: new EtcdCollection(access, identityCodec),
    nodes: new EtcdCollection(access, nodeResource),
    namespaces: { get: (name) => readNamespace(core?.(), name) },
    clusterInformation: new EtcdCollection(access, clusterInformationResource),
    get virtualMachines() {
      const kubernetes = core?.();
      return kubernetes === undefined ? NO_MACHINES : kubernetesVirtualMachines(kubernetes);
    },
    async [Symbol.asyncDispose]() {
      client.close();
      api?.close();
    },
  };
}

const NOTHING: Reader<NamespacedName, OwnedObject> = { get: async () => undefined };
const NO_MACHINES = { pods: NOTHING, instances: NOTHING, machines: NOTHING };

/** Without an API server namespaces have no labels, and every one exists. */
async function readNamespace(core: ApiCore | undefined, name: string): Promise<Versioned<LabelledObject> | undefined> {
  if (core === undefined) return { value: { name, labels: {} }, revision: "0" };
  return core.versionedNamespace(name);
}

class Blocks extends EtcdCollection<string, Block> {
  async listCidrs(): Promise<readonly string[]> {
    return (await this.list()).map(({ value }) => value.cidr);
  }
}

class Affinities extends EtcdCollection<AffinityKey, BlockAffinity> implements BlockAffinities {
  listByOwner(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.listBelow(affinityPrefix(owner, family));
  }

  async listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return [...(await this.listBelow(AFFINITIES.host, isAffinityKey)), ...(await this.listBelow(AFFINITIES.virtual, isAffinityKey))];
  }

  /** Look-ups go by the key, so that there are no labels that could be missing. */
  async listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]> {
    return [];
  }
}

class Endpoints extends EtcdCollection<EndpointKey, WorkloadEndpoint> implements WorkloadEndpoints {
  listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return this.listBelow(endpointResource.keyOf({ namespace, name: namePrefix }));
  }
}

class ProfileObjects extends EtcdCollection<string, Profile> implements Profiles {
  async ensure(profile: Profile): Promise<void> {
    // Another node may be faster.
    if ((await this.get(profile.name)) === undefined) await succeeds(() => this.create(profile.name, profile), "already-exists");
  }
}

/**
 * Keeps endpoint records in etcd. A pod has one record for all its interfaces, under the name that its first ADD gave it (C§2.1 step 13).
 */
class EtcdRecords extends ObjectRecords {
  readonly #endpoints: WorkloadEndpoints;

  constructor(endpoints: WorkloadEndpoints) {
    super(endpoints);
    this.#endpoints = endpoints;
  }

  /** Where the ADD has read that there is no record, it is made without another look. */
  override async write(endpoint: WorkloadEndpoint, workload?: WorkloadAsRead): Promise<void> {
    if (workload !== undefined && workload.containerID === undefined) {
      const { namespace, name } = endpoint;
      if (await succeeds(() => this.#endpoints.create({ namespace, name }, endpoint), "already-exists")) return;
    }
    await super.write(endpoint);
  }

  /** A pod's record has its addresses whatever interface a DEL names: all of them are released (C§6.2). */
  override async clear(key: EndpointKey, containerId: string): Promise<Clearing> {
    const clearing = await super.clear(key, containerId);
    const parts = parseWorkloadEndpointName(key.name);
    if (clearing !== "gone" || parts?.orchestrator !== "k8s") return clearing;
    const { node, orchestrator, workload: pod } = parts;
    const identifiers = { node, orchestrator, pod, containerId: "", endpoint: "" };
    const prefix = key.name.slice(0, key.name.length - parts.endpoint.replaceAll("-", "--").length);
    for (const { value } of await this.#endpoints.listByPrefix(key.namespace, prefix)) {
      if (matchesEndpointName(value.name, identifiers)) return super.clear({ namespace: key.namespace, name: value.name }, containerId);
    }
    return clearing;
  }
}
