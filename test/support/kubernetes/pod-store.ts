/** Where the plugins of a test keep pools, addresses and endpoints: custom resources of the API server, or etcd beside it. */
import type { TestEtcd } from "../etcd/etcd.ts";
import type { Listener } from "./connect-node.ts";
import type { Fields, PoolOptions } from "./resources.ts";
import type { CalicoGroup, TestCluster } from "./test-cluster.ts";

export interface StoredBlock {
  readonly cidr: string;
  readonly allocations: readonly (number | null)[];
  readonly attributes: readonly { readonly handle_id?: string }[];
}

export interface StoredHandle {
  readonly id: string;
  readonly block: Readonly<Record<string, number>>;
}

export interface PodStore {
  /** Keys of the network configuration. */
  readonly conf: Fields;
  /** What a node must reach beside the API server. */
  readonly listener: Listener | undefined;
  /** Makes it empty and ready, with the Calico node of this name. */
  prepare(node: string): Promise<void>;
  createPool(name: string, spec: Omit<PoolOptions, "group">): Promise<unknown>;
  blocks(): Promise<readonly StoredBlock[]>;
  /** Those that are not marked as deleted. */
  handles(): Promise<readonly StoredHandle[]>;
}

export class ResourceStore implements PodStore {
  readonly listener = undefined;
  readonly #cluster: TestCluster;
  readonly #group: CalicoGroup;

  constructor(cluster: TestCluster, group: CalicoGroup) {
    this.#cluster = cluster;
    this.#group = group;
  }

  get conf(): Fields {
    return { datastore_type: "kubernetes", calico_api_group: this.#group };
  }

  prepare(): Promise<void> {
    return this.#cluster.setReady(true);
  }

  createPool(name: string, spec: Omit<PoolOptions, "group">): Promise<unknown> {
    return this.#cluster.createPool(name, { ...spec, group: this.#group });
  }

  async blocks(): Promise<readonly StoredBlock[]> {
    return (await this.#cluster.list(this.#group, "ipamblocks")).map(({ spec }) => spec as unknown as StoredBlock);
  }

  async handles(): Promise<readonly StoredHandle[]> {
    const stored = await this.#cluster.list(this.#group, "ipamhandles");
    return stored
      .map(({ spec }) => spec as unknown as StoredHandle & { readonly handleID: string; readonly deleted?: boolean })
      .filter(({ deleted }) => deleted !== true)
      .map(({ handleID, block }) => ({ id: handleID, block }));
  }
}

const BLOCKS = "/calico/ipam/v2/assignment/";
const HANDLES = "/calico/ipam/v2/handle/";

/** No object of Calico's is in the API server then: not even its ClusterInformation, which would say that it is ready. */
export class EtcdStore implements PodStore {
  readonly #etcd: TestEtcd;

  constructor(etcd: TestEtcd) {
    this.#etcd = etcd;
  }

  get conf(): Fields {
    return { datastore_type: "etcdv3", etcd_endpoints: this.#etcd.endpoints };
  }

  get listener(): Listener {
    return this.#etcd;
  }

  async prepare(node: string): Promise<void> {
    await this.#etcd.clear();
    await this.#etcd.putResource("clusterinformations", "default", { datastoreReady: true });
    await this.#etcd.putResource("nodes", node, {});
  }

  createPool(name: string, spec: Omit<PoolOptions, "group">): Promise<unknown> {
    return this.#etcd.putResource("ippools", name, { nodeSelector: "all()", allowedUses: ["Workload", "Tunnel"], ...spec });
  }

  async blocks(): Promise<readonly StoredBlock[]> {
    return [...(await this.#etcd.contents(BLOCKS)).values()].map((value): StoredBlock => JSON.parse(value));
  }

  async handles(): Promise<readonly StoredHandle[]> {
    const stored = [...(await this.#etcd.contents(HANDLES))].map(([key, value]) => ({
      id: key.slice(HANDLES.length),
      ...JSON.parse(value),
    }));
    return stored.filter(({ deleted }) => deleted !== true);
  }
}
