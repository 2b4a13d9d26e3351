/**
 * A restless node whose addresses, and the pods' records, are in a real API server. The agent and the plugins reach it through a proxy with
 * faults; the judge reads it straight.
 */
import { Agent } from "../../support/agent.ts";
import type { SeenStore } from "../../support/judge/world.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import type { FaultProxy } from "../../support/kubernetes/fault-proxy.ts";
import { readPid, signalProcess } from "../../support/kubernetes/process.ts";
import type { TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { CALL_SECONDS, type Container, type Mode, NETWORK, RestlessWorld } from "../../support/restless/world.ts";

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

  private constructor(pods: ApiServerNode, proxy: FaultProxy, agent: Agent, random: () => number) {
    super(pods.node, agent, random);
    this.cluster = pods.cluster;
    this.proxy = proxy;
    this.#pods = pods;
  }

  static async create(cluster: TestCluster, random: () => number): Promise<ClusterWorld> {
    await using made = new AsyncDisposableStack();
    const proxy = made.use(await cluster.proxy());
    const pods = made.use(await ApiServerNode.create(cluster, { via: proxy }));
    pods.node.excuse("a handle of a living container may count too much after a conflict", "miscounted");
    await pods.pool("pool4", "10.60.0.0/24");
    await pods.pool("pool6", "fd60::/112");
    const server = ["--datastore-type", "kubernetes", "--kubeconfig", await proxy.kubeconfigFor("agent")];
    // Its containers are also added with "agent: off", which a node with policy refuses (system agent/policy-direct).
    const agent = made.use(await Agent.start(pods.node, { args: [...server, "--max-controller-interval", "1", "--policy", "off"] }));
    const world = new ClusterWorld(pods, proxy, agent, random);
    world.own.use(proxy);
    await world.start();
    made.move();
    return world;
  }

  conf(mode: Mode): Record<string, unknown> {
    return this.#pods.conf({
      cniVersion: "1.1.0",
      name: NETWORK,
      ipam: { type: "calico-ipam", assign_ipv4: "true", assign_ipv6: "true" },
      ...this.agent.netconf,
      agent: mode,
      agent_wait_seconds: 1,
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

  protected override async announce(id: string): Promise<void> {
    await this.#pods.pod(this.#podOf(id));
  }

  /** Kubelet takes the pod from the server when its last sandbox is gone. */
  protected override async forget(id: string): Promise<void> {
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
