/**
 * A restless node whose addresses, and the pods' records, are in a real API server. The agent and the plugins reach it through a proxy with
 * faults; the judge reads it straight.
 */
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import type { SeenStore } from "../../support/judge/world.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import type { FaultProxy } from "../../support/kubernetes/fault-proxy.ts";
import { readPid, signalProcess } from "../../support/kubernetes/process.ts";
import type { TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { Node } from "../../support/node.ts";
import { Boot } from "../../support/restless/boot.ts";
import { type Container, type Mode, NETWORK } from "../../support/restless/runtime.ts";
import { CALL_SECONDS, type Parts, RestlessWorld } from "../../support/restless/world.ts";
import { Authority } from "./authority.ts";

const NEIGHBOUR = "node2";
const POOL = "pool4";
const OUTSIDE = "outside";
const PREFIX = "cni.projectcalico.org/";

export class ClusterWorld extends RestlessWorld {
  readonly cluster: TestCluster;
  readonly proxy: FaultProxy;
  /** In a cluster that is the policy agent's. */
  protected override readonly isForwarding = false;
  readonly #pods: ApiServerNode;
  /** Containers of pods that have another container since. */
  readonly #podNames = new Map<string, string>();
  /** Containers whose pod is gone from the server, or is another container's since. */
  readonly #withoutRecord = new Set<string>();

  /** Containers whose pods could not be removed, since the server was away. */
  readonly #unforgotten = new Set<string>();

  #kubeconfig = "";
  #neighbour: Promise<Node> | undefined;
  readonly #authority: Authority;

  private constructor(pods: ApiServerNode, proxy: FaultProxy, authority: Authority, parts: Parts) {
    super(parts);
    this.#authority = authority;
    this.cluster = pods.cluster;
    this.proxy = proxy;
    this.#pods = pods;
  }

  static async create(cluster: TestCluster, random: () => number): Promise<ClusterWorld> {
    await using made = new AsyncDisposableStack();
    const proxy = made.use(await cluster.proxy());
    const boot = new Boot();
    const pods = made.use(await ApiServerNode.create(cluster, { via: proxy, node: { binds: boot.binds } }));
    made.use(boot);
    boot.mountRun(join(pods.node.dir, "run"));
    // The judge's packets pass without policy. The kernel answers for the pods' gateway only where a route leads to it.
    await pods.node.run(["/usr/sbin/sysctl", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    await pods.node.ip("link", "add", OUTSIDE, "up", "type", "bridge");
    await pods.node.ip("route", "add", "169.254.1.1", "dev", OUTSIDE);
    pods.node.excuse("a handle of a living container may count too much after a conflict", "miscounted");
    await pods.pool(POOL, "10.60.0.0/24");
    await pods.pool("pool6", "fd60::/112");
    const kubeconfig = await proxy.kubeconfigFor("agent");
    const authority = new Authority(pods.node.dir, proxy, [kubeconfig, pods.kubeconfig]);
    const agent = made.use(await startAgent(pods.node, kubeconfig));
    const world = new ClusterWorld(pods, proxy, authority, { node: pods.node, boot, agent, random });
    world.#kubeconfig = kubeconfig;
    world.own.use(boot);
    world.own.use(proxy);
    world.ownLinks.add(` ${OUTSIDE}`);
    await world.start();
    made.move();
    return world;
  }

  protected startAgent(): Promise<Agent> {
    return startAgent(this.node, this.#kubeconfig);
  }

  conf(mode: Mode, node = this.node): Record<string, unknown> {
    return this.#pods.conf({
      ...(node === this.node ? {} : { nodename: NEIGHBOUR, ipam_lock_file: `${node.dir}/ipam.lock` }),
      cniVersion: "1.1.0",
      name: NETWORK,
      ipam: { type: "calico-ipam", assign_ipv4: "true", assign_ipv6: "true" },
      ...this.agent.netconf,
      agent: mode,
      agent_wait_seconds: this.waitSeconds,
      agent_timeout_seconds: CALL_SECONDS,
    });
  }

  /** What kubelet does for a pod whose sandbox has died: a new container and sandbox for the same pod. */
  async startAnew(former: Container, mode: Mode): Promise<Container | undefined> {
    const id = this.newId();
    this.#podNames.set(id, this.#podOf(former.id));
    this.#withoutRecord.add(former.id);
    return this.start({ id, mode });
  }

  /** A container on another node of the cluster, which has no agent. */
  async startElsewhere(): Promise<Container | undefined> {
    // Several may begin at once.
    this.#neighbour ??= this.#makeNeighbour();
    return this.start({ mode: "off", node: await this.#neighbour });
  }

  async #makeNeighbour(): Promise<Node> {
    await this.cluster.createNode(NEIGHBOUR);
    const node = this.own.use(await Node.create());
    node.holders.add(this.cluster);
    node.excuse("a handle of a living container may count too much after a conflict", "miscounted");
    await connectNode(node, this.proxy);
    return node;
  }

  /** Somebody edits the pool of IPv4. */
  async setBlockSize(blockSize: number): Promise<void> {
    this.operations++;
    const pool = `/apis/crd.projectcalico.org/v1/ippools/${POOL}`;
    const { status, text } = await this.cluster.api("PATCH", pool, { spec: { blockSize } });
    if (status !== 200) throw new Error(`PATCH of ${pool}: ${status} ${text}`);
  }

  /** The server has a certificate of another authority from now on, whose certificate is where the former one's was. */
  async replaceAuthority(): Promise<void> {
    this.operations++;
    await this.#authority.replace();
  }

  /** The pod goes from the server; its container knows nothing of it. */
  async deletePod({ id }: Container): Promise<void> {
    this.operations++;
    this.#withoutRecord.add(id);
    await this.cluster.remove("v1", "pods", this.#podOf(id), NAMESPACE);
  }

  /** Another pod under the name of one that is gone. */
  async createPodAnew({ id }: Container): Promise<void> {
    this.operations++;
    await this.#pods.pod(this.#podOf(id));
  }

  /** The API server, or the etcd behind it, stands still until `thaw`. */
  freeze(which: "apiserver" | "etcd"): void {
    this.operations++;
    if (which === "apiserver") this.cluster.freeze();
    else signalProcess(this.#etcd, "SIGSTOP");
  }

  thaw(): void {
    this.cluster.thaw();
    signalProcess(this.#etcd, "SIGCONT");
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await super[Symbol.asyncDispose]();
  }

  /** Everything that stands in the way goes first. */
  override async quiet(): Promise<readonly string[]> {
    this.thaw();
    this.proxy.clear();
    this.proxy.thawWatches();
    for (const id of this.#unforgotten) {
      this.#unforgotten.delete(id);
      await this.forget(id);
    }
    return super.quiet();
  }

  get #etcd(): number | undefined {
    return readPid(`${this.cluster.dir}/etcd.pid`);
  }

  protected override argsOf(id: string): string {
    return `K8S_POD_NAME=${this.#podOf(id)};K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_INFRA_CONTAINER_ID=${id}`;
  }

  protected override async announce(id: string, node: Node): Promise<void> {
    await this.#pods.pod(this.#podOf(id), node === this.node ? {} : { node: NEIGHBOUR });
  }

  /** Kubelet takes the pod from the server when its last sandbox is gone. */
  override async forget(id: string): Promise<void> {
    const name = this.#podOf(id);
    const isUsed = [...this.containers].some((one) => this.#podOf(one.id) === name);
    if (isUsed) return;
    try {
      const isThere = (await this.cluster.get("v1", "pods", name, NAMESPACE)) !== undefined;
      if (isThere) await this.cluster.remove("v1", "pods", name, NAMESPACE);
    } catch {
      this.#unforgotten.add(id);
    }
  }

  /** A pod's annotations are its container's endpoint, if they name the addresses that the container has. */
  protected async lookAtStore(): Promise<SeenStore> {
    const pods = await this.cluster.list("v1", "pods", NAMESPACE);
    const recorded = pods.flatMap(({ metadata: { name, annotations = {} } }) => {
      const [id = "", addresses = ""] = [annotations[`${PREFIX}containerID`], annotations[`${PREFIX}podIPs`]];
      const container = [...this.containers].find((one) => one.id === id);
      const said = addresses.split(",").map((address) => address.split("/")[0]);
      if (addresses === "") return [];
      if (container === undefined) return [`${id} eth0 of pod ${name}`];
      return [
        said.join() === container.addresses.join() && this.#podOf(id) === name
          ? `${id} eth0`
          : `${id} eth0 of pod ${name} with ${addresses}`,
      ];
    });
    const without = [...this.containers].filter(({ id }) => this.#withoutRecord.has(id)).map(({ id }) => `${id} eth0`);
    const store = this.#withoutLate(await this.cluster.lookAtStore());
    return { ...store, handles: this.#counted(store), endpoints: [...recorded, ...without], lacksEndpoints: false };
  }

  /**
   * An agent that is killed while the server stands still may have asked for a block that is written when the server goes on, behind the
   * ADD that its plugin did without it: the handle has an address more than the container, until its DEL, which releases whatever the
   * handle has (design, invariant 5). Judged then: of a container that is gone nothing may be held.
   */
  #withoutLate(store: SeenStore): SeenStore {
    const own = new Map([...this.containers].map(({ id, addresses }) => [`${NETWORK}.${id}`, addresses]));
    return { ...store, grants: store.grants.filter(({ handle, address }) => own.get(handle)?.includes(address) !== false) };
  }

  /**
   * After a conflict nobody can tell whether the count of a handle was raised by the write that is repeated: it is raised once more. Too high
   * does no harm as long as the container lives, and its DEL sets it right (ipam-plugin/allocator/block-write.ts); too low would.
   */
  #counted({ grants, handles }: SeenStore): ReadonlyMap<string, number> {
    const living = new Set([...this.containers].map(({ id }) => `${NETWORK}.${id}`));
    const held = (handle: string) => grants.filter((grant) => grant.handle === handle).length;
    return new Map([...handles].map(([handle, count]) => [handle, living.has(handle) ? Math.min(count, held(handle)) : count]));
  }

  #podOf(id: string): string {
    return this.#podNames.get(id) ?? `pod-${id}`;
  }
}

function startAgent(node: Node, kubeconfig: string): Promise<Agent> {
  const server = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig];
  return Agent.start(node, { args: [...server, "--max-controller-interval", "1", "--policy", "off"] });
}
