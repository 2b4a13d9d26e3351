/**
 * A real API server and a real etcd, for tests that hold wherever Calico's objects are: in either group of custom resources, or in
 * etcd, with pods, namespaces and nodes in the API server.
 */
import { startEtcd, type TestEtcd } from "../etcd/etcd.ts";
import { ApiServerNode, type ApiServerNodeOptions } from "./api-server-node.ts";
import { LEGACY, startCluster, type TestCluster, V3 } from "./test-cluster.ts";

export const ETCD = "etcd";
export type Store = typeof LEGACY | typeof V3 | typeof ETCD;

/** Where the group of custom resources can make no difference. */
export const BOTH_STORES: readonly Store[] = [LEGACY, ETCD];
export const ALL_STORES: readonly Store[] = [LEGACY, V3, ETCD];

export class PodStores implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly #etcd: TestEtcd;

  private constructor(cluster: TestCluster, etcd: TestEtcd) {
    this.cluster = cluster;
    this.#etcd = etcd;
  }

  static async start(): Promise<PodStores> {
    return new PodStores(await startCluster(), await startEtcd());
  }

  /** A node whose plugins keep everything in this store, which is empty but for what makes it ready. */
  node(store: Store, options: Omit<ApiServerNodeOptions, "group" | "etcd"> = {}): Promise<ApiServerNode> {
    return ApiServerNode.create(this.cluster, { ...options, ...(store === ETCD ? { etcd: this.#etcd } : { group: store }) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#etcd[Symbol.asyncDispose]();
    await this.cluster[Symbol.asyncDispose]();
  }
}
