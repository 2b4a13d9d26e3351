/**
 * A node with the plugins and pods of its own on a real API server: what kubelet and the runtime would do, and what anybody can see
 * afterwards by plain requests.
 */
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import type { JsonObject } from "../../../lib/json/value.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { Agent, type AgentOptions } from "../agent.ts";
import type { TestEtcd } from "../etcd/etcd.ts";
import { type CniRun, Node, type NodeOptions, type Pod as Sandbox } from "../node.ts";
import { connectNode, type Listener } from "./connect-node.ts";
import { EtcdStore, type PodStore, ResourceStore } from "./pod-store.ts";
import type { PodOptions, PoolOptions, StoredObject } from "./resources.ts";
import { type CalicoGroup, LEGACY, type TestCluster } from "./test-cluster.ts";

export const NAMESPACE = "test";
const PREFIX = "cni.projectcalico.org/";

export interface ApiServerNodeOptions {
  readonly group?: CalicoGroup;
  /** Where Calico's objects are instead of in the API server. */
  readonly etcd?: TestEtcd | undefined;
  /** Whose kubeconfig and which way to the server; the plugins' own account and straight when absent. */
  readonly via?: Listener & { readonly server: string };
  readonly identity?: "admin" | "cni" | "stranger";
  readonly node?: NodeOptions;
  /** CIDRs of the pools `pool4` and `pool6`; none when absent. */
  readonly pools?: readonly string[];
  /** Names of pods of the namespace `test`; none when absent. */
  readonly pods?: readonly string[];
}

export interface PodCall {
  /** Name of the pod object. */
  readonly pod?: string;
  readonly container?: string;
  readonly sandbox?: Sandbox;
  readonly ifname?: string;
  /** Added to CNI_ARGS. */
  readonly args?: string;
  /** Keys over the network configuration. */
  readonly conf?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** CNI_NETNS where the sandbox's will not do. */
  readonly netns?: string;
  readonly timeoutMs?: number;
}

export interface CniOutput {
  readonly ips: readonly { readonly address: string; readonly interface?: number }[];
  readonly interfaces: readonly { readonly name: string; readonly mac?: string; readonly mtu?: number; readonly sandbox?: string }[];
  readonly routes?: readonly { readonly dst: string }[];
}

export class ApiServerNode implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly node: Node;
  readonly group: CalicoGroup;
  /** Name of the Node object. */
  readonly name = "node1";
  readonly kubeconfig: string;
  readonly #store: PodStore;
  /** URL of the server, when the way there is not straight. */
  readonly #server: string | undefined;
  readonly #sandboxes = new Map<string, Sandbox>();

  private constructor(cluster: TestCluster, node: Node, group: CalicoGroup, kubeconfig: string, store: PodStore, server?: string) {
    this.cluster = cluster;
    this.node = node;
    this.group = group;
    this.kubeconfig = kubeconfig;
    this.#store = store;
    this.#server = server;
  }

  /** On an empty and ready cluster, with the namespace `test` and the node. */
  static async create(cluster: TestCluster, options: ApiServerNodeOptions = {}): Promise<ApiServerNode> {
    const { group = LEGACY, etcd, via, identity = "cni", pools = [], pods = [] } = options;
    const store = etcd === undefined ? new ResourceStore(cluster, group) : new EtcdStore(etcd);
    await cluster.reset();
    await store.prepare("node1");
    await cluster.createNamespace(NAMESPACE);
    await cluster.createNode("node1");
    const node = await Node.create(options.node);
    node.holders.add(etcd ?? cluster);
    await connectNode(node, via ?? cluster);
    if (store.listener !== undefined) await connectNode(node, store.listener);
    const made = new ApiServerNode(cluster, node, group, await cluster.kubeconfigFor(identity, via?.server), store, via?.server);
    for (const cidr of pools) await made.pool(cidr.includes(":") ? "pool6" : "pool4", cidr);
    for (const name of pods) await made.pod(name);
    return made;
  }

  /** An agent of its own account, which has the same way to the server as the plugins. */
  async startAgent(args: readonly string[] = [], options: Omit<AgentOptions, "args"> = {}): Promise<Agent> {
    const kubeconfig = await this.cluster.kubeconfigFor("agent", this.#server);
    return Agent.start(this.node, { ...options, args: ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig, ...args] });
  }

  async pool(name: string, cidr: string, options: Omit<PoolOptions, "cidr" | "group"> = {}): Promise<void> {
    await this.#store.createPool(name, { cidr, blockSize: cidr.includes(":") ? 122 : 26, ...options });
  }

  pod(name: string, options: PodOptions = {}): Promise<StoredObject> {
    const isPastIpam = `${PREFIX}ipAddrsNoIpam` in (options.annotations ?? {});
    if (isPastIpam) this.node.excuse("addresses past IPAM are granted to nobody", "not-granted");
    return this.cluster.createPod(name, { namespace: NAMESPACE, serviceAccountName: "default", ...options });
  }

  /** The sandbox of this name, made when it is asked for first. */
  async sandbox(name = "pod"): Promise<Sandbox> {
    const known = this.#sandboxes.get(name) ?? (await this.node.addPod(name));
    this.#sandboxes.set(name, known);
    return known;
  }

  /** The call for a pod that has a sandbox of its own. */
  async callOf(pod: string, container = `c-${pod}`): Promise<PodCall & { readonly sandbox: Sandbox }> {
    return { pod, container, sandbox: await this.sandbox(pod) };
  }

  conf(change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
    return {
      cniVersion: "1.0.0",
      name: "net1",
      type: "calico",
      ...this.#store.conf,
      nodename: this.name,
      nodename_file_optional: true,
      ipam_lock_file: `${this.node.dir}/ipam.lock`,
      log_level: "debug",
      ipam: { type: "calico-ipam" },
      policy: { type: "k8s" },
      kubernetes: { kubeconfig: this.kubeconfig },
      ...change,
    };
  }

  async call(
    command: string,
    { pod = "pod", container = "c1", sandbox, ifname, args = "", conf, env, netns, timeoutMs }: PodCall,
  ): Promise<CniRun> {
    return this.node.cni(command, {
      plugin: "calico",
      containerId: container,
      pod: sandbox ?? (await this.sandbox()),
      args: `K8S_POD_NAME=${pod};K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_INFRA_CONTAINER_ID=whatever${args}`,
      conf: this.conf(conf),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(netns === undefined ? {} : { netns }),
      ...(ifname === undefined ? {} : { ifname }),
      ...(env === undefined ? {} : { env }),
    });
  }

  /** ADD that must succeed. */
  async add(call: PodCall = {}): Promise<CniOutput> {
    const run = await this.call("ADD", call);
    if (run.exit !== 0) throw new Error(`ADD: exit ${run.exit}: ${run.stdout}${run.stderr}`);
    return run.json as CniOutput;
  }

  /** DEL that must succeed. */
  async del(call: PodCall = {}): Promise<void> {
    const run = await this.call("DEL", call);
    if (run.exit !== 0) throw new Error(`DEL: exit ${run.exit}: ${run.stdout}${run.stderr}`);
  }

  /** The message of an operation that must fail. */
  async refusal(command: string, call: PodCall = {}): Promise<string> {
    const run = await this.call(command, call);
    if (run.exit === 0) throw new Error(`${command} succeeded: ${run.stdout}`);
    return String((run.json as { msg?: unknown } | undefined)?.msg);
  }

  /** Annotations of a pod that begin with Calico's prefix, without it. */
  async annotations(pod = "pod"): Promise<Readonly<Record<string, string>>> {
    const found = await this.cluster.get("v1", "pods", pod, NAMESPACE);
    const entries = Object.entries(found?.metadata.annotations ?? {});
    return Object.fromEntries(entries.flatMap(([key, value]) => (key.startsWith(PREFIX) ? [[key.slice(PREFIX.length), value]] : [])));
  }

  /**
   * Whose the pod is and which addresses it has, as Calico's readers are told: by annotations, or by the stored endpoint. Empty, or
   * without addresses, when it has none.
   */
  async record(pod?: string): Promise<{ readonly containerID?: string; readonly podIP?: string; readonly podIPs?: string }> {
    if (this.#store instanceof ResourceStore) return this.annotations(pod);
    expect(await this.annotations(pod)).not.toHaveProperty("podIP");
    const endpoint = await this.endpoint(pod);
    if (endpoint === undefined) return {};
    return { containerID: endpoint.containerID, podIP: endpoint.ipNetworks[0] ?? "", podIPs: endpoint.ipNetworks.join(",") };
  }

  /** The endpoint that readers make of the pod (C§7.5), through the datastore port. */
  async endpoint(pod = "pod"): Promise<WorkloadEndpoint | undefined> {
    const config = decodeNetworkConfig({ ...this.conf(), kubernetes: { kubeconfig: this.cluster.adminKubeconfig } } as JsonObject);
    await using datastore = await openDatastore(config, {});
    return (await datastore.endpoints.get({ namespace: NAMESPACE, name: `${this.name}-k8s-${pod.replaceAll("-", "--")}-eth0` }))?.value;
  }

  /** `spec.podCIDRs` of the Node object, which can be given once. */
  async podCidrs(...podCIDRs: readonly string[]): Promise<void> {
    await this.cluster.createNode(this.name, {}, { podCIDR: podCIDRs[0], podCIDRs });
  }

  /** Addresses with prefix length of an interface in a sandbox, link-local ones left out. */
  async podAddresses(sandbox?: Sandbox, ifname = "eth0"): Promise<string[]> {
    const links = await this.node.podIp(sandbox ?? (await this.sandbox()), "-j", "address", "show", "dev", ifname);
    const addresses = links.flatMap((link) => link.addr_info as { local: string; prefixlen: number; scope: string }[]);
    return addresses.filter(({ scope }) => scope === "global").map(({ local, prefixlen }) => `${local}/${prefixlen}`);
  }

  /** "10.0.0.0/24 via 169.254.1.1" of a sandbox's main tables, without what the kernel adds by itself. */
  async podRoutes(sandbox?: Sandbox): Promise<string[]> {
    const pod = sandbox ?? (await this.sandbox());
    const routes = [
      ...(await this.node.podIp(pod, "-j", "-4", "route", "show")),
      ...(await this.node.podIp(pod, "-j", "-6", "route", "show")),
    ];
    return routes
      .filter(({ protocol }) => protocol !== "kernel")
      .map(({ dst, gateway }) => (gateway === undefined ? String(dst) : `${dst} via ${gateway}`));
  }

  /** Destinations of the host's routes to pods, both families. */
  async hostRoutes(): Promise<string[]> {
    const routes = [...(await this.node.ip("-j", "-4", "route", "show")), ...(await this.node.ip("-j", "-6", "route", "show"))];
    return routes.filter(({ protocol }) => protocol !== "kernel").map(({ dst }) => String(dst));
  }

  /** Handle id → addresses that it holds, read from the blocks; the handles themselves must agree. */
  async held(): Promise<Readonly<Record<string, readonly string[]>>> {
    const held: Record<string, string[]> = {};
    for (const { cidr, allocations, attributes } of await this.#store.blocks()) {
      for (const [ordinal, index] of allocations.entries()) {
        const handle = index === null ? undefined : attributes[index]?.handle_id;
        if (handle !== undefined) held[handle] = [...(held[handle] ?? []), `${cidr}#${ordinal}`];
      }
    }
    const counted = await this.#store.handles();
    expect(counted.map(({ id }) => id).sort()).toEqual(Object.keys(held).sort());
    for (const { id, block } of counted) {
      expect([id, Object.values(block).reduce((sum, count) => sum + Number(count), 0)]).toEqual([id, held[id]?.length]);
    }
    return held;
  }

  /** Nothing of any pod is left: no link, no route, no address, no announcement. */
  async expectNothingLeft(...pods: readonly string[]): Promise<void> {
    expect(await this.held()).toEqual({});
    await this.node.expectClean();
    for (const pod of pods) expect((await this.record(pod)).podIPs ?? "").toBe("");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }
}
