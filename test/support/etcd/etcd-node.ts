/** A pretend node whose plugins keep everything in a real etcd: plain containers, as a runtime without Kubernetes calls for them. */

import { connectNode } from "../kubernetes/connect-node.ts";
import type { StoredBlock } from "../kubernetes/pod-store.ts";
import { type CniOptions, type CniRun, Node, type Pod } from "../node.ts";
import type { TestEtcd } from "./etcd.ts";

export interface EtcdCall extends Partial<CniOptions> {
  /** Keys of the network configuration that differ. */
  readonly keys?: Readonly<Record<string, unknown>>;
}

export class EtcdNode implements AsyncDisposable {
  readonly node: Node;
  readonly etcd: TestEtcd;
  /** Where the plugins look for etcd: itself, or a proxy before it. */
  readonly endpoints: string;

  private constructor(node: Node, etcd: TestEtcd, endpoints: string) {
    this.node = node;
    this.etcd = etcd;
    this.endpoints = endpoints;
  }

  /** Empties etcd and makes a cluster that is ready, with a pool and this node. */
  static async create(etcd: TestEtcd, reachable: { readonly port: number; readonly dir: string } = etcd): Promise<EtcdNode> {
    const node = await Node.create({ binds: { "/var/run/calico": "calico" } });
    node.holders.add(etcd);
    await connectNode(node, reachable);
    const made = new EtcdNode(node, etcd, `http://127.0.0.1:${reachable.port}`);
    await etcd.clear();
    await made.put("clusterinformations", "default", { datastoreReady: true });
    await made.put("ippools", "pool", { cidr: "10.60.0.0/24", blockSize: 26, nodeSelector: "all()" });
    await made.put("nodes", "node1", {});
    return made;
  }

  put(plural: string, name: string, spec: Readonly<Record<string, unknown>>): Promise<void> {
    return this.etcd.putResource(plural, name, spec);
  }

  conf(keys: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
    return {
      cniVersion: "1.0.0",
      name: "net1",
      type: "calico",
      datastore_type: "etcdv3",
      etcd_endpoints: this.endpoints,
      nodename: "node1",
      nodename_file_optional: true,
      ipam_lock_file: `${this.node.dir}/ipam.lock`,
      agent: "off",
      ipam: { type: "calico-ipam" },
      ...keys,
    };
  }

  call(command: string, pod: Pod | undefined, { keys, ...options }: EtcdCall = {}): Promise<CniRun> {
    return this.node.cni(command, { plugin: "calico", conf: this.conf(keys), ...(pod === undefined ? {} : { pod }), ...options });
  }

  /** The value of an endpoint of this node, or `undefined`. */
  async endpoint(container = "cid1", namespace = "default", node = "node1", ifname = "eth0"): Promise<StoredEndpoint | undefined> {
    const name = `${node.replaceAll("-", "--")}-cni-${container}-${ifname}`;
    const key = `/calico/resources/v3/projectcalico.org/workloadendpoints/${namespace}/${name}`;
    const value = (await this.etcd.contents()).get(key);
    return value === undefined ? undefined : JSON.parse(value);
  }

  /** Keys below a part of Calico's tree: "ipam/v2/handle/". */
  async keys(below: string): Promise<readonly string[]> {
    return [...(await this.etcd.contents(`/calico/${below}`)).keys()];
  }

  /** Handles of the addresses that blocks say are taken. */
  async held(): Promise<readonly string[]> {
    const texts = [...(await this.etcd.contents("/calico/ipam/v2/assignment/")).values()];
    return texts.flatMap((text) => {
      const { allocations, attributes }: StoredBlock = JSON.parse(text);
      return allocations.flatMap((index) => (index === null ? [] : [attributes[index]?.handle_id ?? ""]));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }
}

export interface StoredEndpoint {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, unknown>>;
}
