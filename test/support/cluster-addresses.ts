/** Addresses as plugins on the nodes of a cluster take them, and what stands of them afterwards. */

import { check } from "../../doctor/check.ts";
import { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../ipam-plugin/host.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { type KubernetesDatastore, openKubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { assignOne } from "./blocks.ts";
import { type CalicoGroup, LEGACY, type TestCluster } from "./kubernetes/test-cluster.ts";

export const NAMESPACE = "test";

/** What a test may ask about the addresses of a node. */
export interface NodeData {
  readonly addresses: readonly string[];
  readonly blocks: readonly string[];
  readonly affinities: readonly string[];
}

export class ClusterAddresses implements AsyncDisposable {
  readonly datastore: KubernetesDatastore;
  readonly allocator: Allocator;
  readonly #cluster: TestCluster;

  private constructor(cluster: TestCluster, datastore: KubernetesDatastore) {
    this.#cluster = cluster;
    this.datastore = datastore;
    this.allocator = new Allocator({ datastore, clock: systemClock });
  }

  static async open(cluster: TestCluster, group: CalicoGroup = LEGACY): Promise<ClusterAddresses> {
    const kubernetes = { kubeconfig: await cluster.kubeconfigFor("admin") };
    const config = decodeNetworkConfig({ datastore_type: "kubernetes", calico_api_group: group, qps: 1000, burst: 1000, kubernetes });
    return new ClusterAddresses(cluster, openKubernetesDatastore(config, {}));
  }

  /** An empty cluster that is ready, with these nodes, in which pods of `NAMESPACE` can be made; pools are the test's. */
  async clear(nodes: readonly string[]): Promise<void> {
    await this.#cluster.reset();
    await this.#cluster.setReady(true);
    await this.#cluster.createNamespace(NAMESPACE);
    for (const node of nodes) await this.#cluster.createNode(node);
  }

  /** What an ADD does of it: an address under the handle of the container. @returns the address */
  async take(node: string, pod: string, containerId = `${pod}-c`): Promise<string> {
    return assignOne(this.allocator, node, `net1.${containerId}`, { node, namespace: NAMESPACE, pod });
  }

  /** A container that a program other than the kubelet runs. */
  takeContainer(node: string, containerId: string): Promise<string> {
    return assignOne(this.allocator, node, `net1.${containerId}`, { node });
  }

  takeTunnel(node: string): Promise<string> {
    return assignOne(this.allocator, node, `vxlan-tunnel-addr-${node}`, { node, type: "vxlanTunnelAddress" });
  }

  /** The same in IPv6. */
  takeTunnel6(node: string): Promise<string> {
    return assignOne(this.allocator, node, `vxlan-v6-tunnel-addr-${node}`, { node, type: "vxlanV6TunnelAddress" }, 6);
  }

  /** As `take`, of IPv6 pools; under the same handle. */
  take6(node: string, pod: string, containerId = `${pod}-c`): Promise<string> {
    return assignOne(this.allocator, node, `net1.${containerId}`, { node, namespace: NAMESPACE, pod }, 6);
  }

  /** A pod with the annotations of its ADD. @returns its address */
  async addPod(node: string, pod: string, containerId = `${pod}-c`): Promise<string> {
    const address = await this.take(node, pod, containerId);
    const annotations = {
      "cni.projectcalico.org/containerID": containerId,
      "cni.projectcalico.org/podIP": `${address}/32`,
      "cni.projectcalico.org/podIPs": `${address}/32`,
    };
    await this.#cluster.createPod(pod, { namespace: NAMESPACE, node, serviceAccountName: "default", annotations });
    return address;
  }

  removePod(pod: string): Promise<void> {
    return this.#cluster.remove("v1", "pods", pod, NAMESPACE);
  }

  async of(node: string): Promise<NodeData> {
    const blocks = await this.datastore.blocks.list();
    const held = await Promise.all(
      blocks
        .flatMap(({ value }) =>
          value.attributes.flatMap(({ activeOwner, handleId }) => (activeOwner?.node === node && handleId !== undefined ? [handleId] : [])),
        )
        .map((handle) => this.allocator.addressesByHandle(handle)),
    );
    return {
      addresses: [...new Set(held.flatMap((found) => found ?? []).map(({ address }) => formatAddress(address)))].sort(),
      blocks: blocks.filter(({ value }) => value.affinity?.name === node).map(({ value }) => value.cidr),
      affinities: (
        await Promise.all(([4, 6] as const).map((family) => this.datastore.affinities.listByOwner({ type: "host", name: node }, family)))
      )
        .flat()
        .map(({ value }) => value.cidr),
    };
  }

  /** Kinds of what the doctor finds wrong; notes, and addresses in use by nobody, left out. */
  async damage(): Promise<readonly string[]> {
    const problems = await check(this.datastore, { graceMs: 0, isStrict: false, nowMs: () => Date.now(), pause: async () => undefined });
    return problems
      .filter(({ severity, kind }) => severity === "problem" && kind !== "address-unused")
      .map(({ kind, object }) => `${kind} ${object}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.datastore[Symbol.asyncDispose]();
  }
}
