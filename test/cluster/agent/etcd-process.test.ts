/** The agent's own process with etcd as its datastore, asked by the plugin on a pretend machine. */
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { recordsOf } from "../../support/agent-calls.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { type EtcdCall, EtcdNode } from "../../support/etcd/etcd-node.ts";
import { StreamProxy } from "../../support/etcd/stream-proxy.ts";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, type CniRun, type Pod } from "../../support/node.ts";
import { OTLP_ENDPOINT, OtlpReceiver } from "../../support/otlp-receiver.ts";

const BURST = 40;
const indexes = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);
const HANDLES = indexes(BURST)
  .map((index) => `net1.c${index}`)
  .toSorted();

const cluster = shared(startCluster);
const etcd = shared(startEtcd);

/** A machine with an agent, and containers that come and go on it. */
class World implements AsyncDisposable {
  readonly machine: EtcdNode;
  readonly agent: Agent;
  readonly #pods: Pod[] = [];

  private constructor(machine: EtcdNode, agent: Agent) {
    this.machine = machine;
    this.agent = agent;
  }

  /** @param options.reaches an API server that the machine reaches too */
  static async create(options: { via?: StreamProxy; args?: readonly string[]; reaches?: TestCluster } = {}): Promise<World> {
    const reachable = options.via === undefined ? etcd : { port: Number(new URL(options.via.url).port), dir: etcd.dir };
    const machine = await EtcdNode.create(etcd, reachable);
    if (options.reaches !== undefined) await connectNode(machine.node, options.reaches);
    const args = ["--datastore-type", "etcdv3", "--node-name", "node1", ...(options.args ?? [])];
    const agent = await Agent.start(machine.node, { args, env: { ETCD_ENDPOINTS: machine.endpoints } });
    return new World(machine, agent);
  }

  async sandboxes(count: number): Promise<void> {
    while (this.#pods.length < count) this.#pods.push(await this.machine.node.addPod());
  }

  call(command: string, index: number, { keys, ...options }: EtcdCall = {}): Promise<CniRun> {
    const all = { keys: { ...this.agent.netconf, ...keys }, containerId: `c${index}`, ...options };
    return this.machine.call(command, command === "STATUS" ? undefined : this.#pods[index], all);
  }

  /** @returns the addresses */
  async add(index: number, options: EtcdCall = {}): Promise<readonly string[]> {
    const { exit, stdout, json } = await this.call("ADD", index, options);
    if (exit !== 0) throw new Error(stdout);
    return addressesIn(json);
  }

  async succeeds(command: "CHECK" | "DEL", index: number, options: EtcdCall = {}): Promise<void> {
    const { exit, stdout } = await this.call(command, index, options);
    if (exit !== 0) throw new Error(`${command} c${index}: ${stdout}`);
  }

  /** As another client does it: the pool that there is gives no more addresses, and a new one does. */
  async movePool(cidr: string): Promise<void> {
    await this.machine.put("ippools", "pool", { cidr: "10.60.0.0/24", blockSize: 26, nodeSelector: "all()", disabled: true });
    await this.machine.put("ippools", "other", { cidr, blockSize: 26, nodeSelector: "all()" });
  }

  /** Adds it, and takes it away, until it has an address that begins so. */
  async untilAddedIn(beginning: string, index: number): Promise<void> {
    await until("an address of the new pool", async () => {
      const [address = ""] = await this.add(index);
      if (address.startsWith(beginning)) return true;
      await this.succeeds("DEL", index);
      return false;
    });
  }

  async expectNothingLeft(): Promise<void> {
    expect(await this.machine.held()).toEqual([]);
    expect(await this.machine.keys("ipam/v2/handle/")).toEqual([]);
    expect(await this.machine.keys("resources/v3/projectcalico.org/workloadendpoints/")).toEqual([]);
    await this.machine.node.expectClean();
    expect(recordsOf(this.agent)).toEqual([]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    await this.machine[Symbol.asyncDispose]();
  }
}

function addressesIn(result: unknown): readonly string[] {
  const ips = typeof result === "object" && result !== null && "ips" in result && Array.isArray(result.ips) ? result.ips : [];
  return ips.map(({ address }: { readonly address: string }) => address);
}

/** The pod test/web of an API server beside etcd. @returns what its calls are made with */
async function webPod(): Promise<EtcdCall> {
  await cluster.reset();
  await cluster.createNamespace("test", {}, { team: "blue" });
  await cluster.createPod("web", { namespace: "test", node: "node1", labels: { app: "shop" } });
  const keys = { policy: { type: "k8s" }, kubernetes: { kubeconfig: await cluster.kubeconfigFor("cni") } };
  return { keys, args: "K8S_POD_NAME=web;K8S_POD_NAMESPACE=test;K8S_POD_INFRA_CONTAINER_ID=c0" };
}

describe("an agent on etcd", () => {
  it("gives containers that come at once addresses of their own, beside plugins that serve another list on the same blocks", async () => {
    await using world = await World.create();
    await world.sandboxes(BURST);
    const beside = (index: number) => ({ keys: index % 4 === 0 ? { agent: "off" } : {} });
    const added = await Promise.all(indexes(BURST).map((index) => world.add(index, beside(index))));
    expect(new Set(added.flat()).size).toBe(BURST);
    expect((await world.machine.held()).toSorted()).toEqual(HANDLES);
    await Promise.all(indexes(BURST).map((index) => world.succeeds("CHECK", index, beside(index))));
    await Promise.all(indexes(BURST).map((index) => world.succeeds("DEL", index)));
    await world.expectNothingLeft();
  });

  it("asks etcd five times for an ADD and four times for a DEL, and no more often when many come at once", async () => {
    await using world = await World.create();
    await world.sandboxes(BURST + 2);
    await world.add(0);
    // Copies that are not in sync yet are not used.
    await until("an ADD from copies", async () => {
      const { Range } = await etcd.costsOf(() => world.add(1));
      await world.succeeds("DEL", 1);
      return Range <= 2;
    });

    const [add, del] = [await etcd.costsOf(() => world.add(1)), await etcd.costsOf(() => world.succeeds("DEL", 1))];
    // The reads are of an endpoint that this container may have already, and of its profile (C§2.6, C§2.7): they must not be old.
    expect(add).toEqual({ Range: 2, Txn: 3 });
    expect(del).toEqual({ Range: 1, Txn: 3 });

    const burst = indexes(BURST).map((index) => index + 2);
    const adds = await etcd.costsOf(() => Promise.all(burst.map((index) => world.add(index))));
    const dels = await etcd.costsOf(() => Promise.all(burst.map((index) => world.succeeds("DEL", index))));
    // Each of them a handle and an endpoint; how many share the write of a block depends on how close together they come.
    for (const { Txn, Range } of [adds, dels]) {
      expect(Txn / BURST).toBeLessThanOrEqual(3);
      expect(Range / BURST).toBeLessThanOrEqual(2);
    }
    await world.succeeds("DEL", 0);
    await world.expectNothingLeft();
  });

  it("sees at its next ADD what another client has changed: a pool that is disabled, and another that is new", async () => {
    await using world = await World.create();
    await world.sandboxes(2);
    expect((await world.add(0))[0]).toMatch(/^10\.60\./);
    await world.movePool("10.61.0.0/24");
    await world.untilAddedIn("10.61.", 1);
    for (const index of [0, 1]) await world.succeeds("DEL", index);
    await world.expectNothingLeft();
  });

  it("is not ready for pods while ClusterInformation says so, and is again when it does not", async () => {
    await using world = await World.create();
    await world.sandboxes(1);
    await world.machine.put("clusterinformations", "default", { datastoreReady: false });
    await until("the refusal", async () => {
      if ((await world.call("ADD", 0)).exit !== 0) return true;
      await world.succeeds("DEL", 0);
      return false;
    });
    await world.machine.put("clusterinformations", "default", { datastoreReady: true });
    await world.add(0);
    await world.succeeds("DEL", 0);
    await world.expectNothingLeft();
  });

  it("goes on after its streams were cut, history was compacted and keys changed meanwhile", async () => {
    await using proxy = await StreamProxy.start(etcd.port);
    await using world = await World.create({ via: proxy });
    await world.sandboxes(2);
    await world.add(0);
    proxy.refuse();
    await world.movePool("10.62.0.0/24");
    await etcd.compact();
    proxy.accept();
    await world.untilAddedIn("10.62.", 1);
    for (const index of [0, 1]) await world.succeeds("DEL", index);
    await world.expectNothingLeft();
  });

  it("A-D05: removes the link while etcd is away, and releases the address when it is back", async () => {
    await using proxy = await StreamProxy.start(etcd.port);
    await using world = await World.create({ via: proxy });
    await world.sandboxes(1);
    await world.add(0);
    proxy.refuse();
    const run = await world.call("DEL", 0);
    await world.machine.node.expectClean();
    expect(await world.machine.held()).toEqual(["net1.c0"]);
    proxy.accept();
    if (run.exit !== 0) await until("the repeated DEL", async () => (await world.call("DEL", 0)).exit === 0);
    await until("the release", async () => (await world.machine.held()).length === 0);
    await world.expectNothingLeft();
  });

  it("A-R01: finds its endpoints again after it was killed in the middle of a burst, and leaves nothing behind", async () => {
    await using world = await World.create();
    await world.sandboxes(BURST);
    await world.add(0);
    const burst = Promise.all(indexes(BURST).map((index) => world.call("ADD", index)));
    await until("half of the burst", async () => recordsOf(world.agent).length > BURST / 2);
    await world.agent.kill();
    await world.agent.restart();
    const runs = await burst;

    await world.succeeds("CHECK", 0);
    // What the kill interrupted is undone, or done, by the runtime's next ADD.
    const addresses = await Promise.all(indexes(BURST).map((index) => world.add(index)));
    expect(new Set(addresses.flat()).size).toBe(BURST);
    for (const [index, { exit, json }] of runs.entries()) if (exit === 0) expect(addresses[index]).toEqual(addressesIn(json));
    expect((await world.machine.held()).toSorted()).toEqual(HANDLES);
    await Promise.all(indexes(BURST).map((index) => world.succeeds("DEL", index)));
    await world.expectNothingLeft();
  });

  it("keeps the identities of its pods in etcd, and shows them", async () => {
    const options = await webPod();
    const args = ["--kubeconfig", await cluster.kubeconfigFor("agent"), "--endpoint-objects"];
    await using world = await World.create({ args, reaches: cluster });
    await world.sandboxes(1);
    await world.add(0, options);
    const tortiectl = (...argv: string[]) => world.machine.node.run([join(BIN_DIR, "tortiectl"), ...argv, "--socket", world.agent.socket]);
    await until("the identity", async () => (await tortiectl("identity", "list")).stdout.includes("k8s:app=shop"));
    const [[key = "", text = ""] = []] = await etcd.contents("/calico/tortie/identities/");
    const number = key.slice(key.lastIndexOf("/") + 1);
    expect(JSON.parse(text)).toMatchObject({
      labels: expect.arrayContaining(["k8s:app=shop", "k8s:namespace=test", "k8s-namespace:namespace/team=blue"]),
      state: "active",
      createdBy: "tortie-node",
      keeper: "node1",
    });
    expect((await tortiectl("identity", "show", number)).stdout).toMatch(/^pods here +test\/web$/m);
    const endpoints = JSON.parse((await tortiectl("node", "endpoints", "--json")).stdout);
    expect(endpoints[0].status.identity.id).toBe(Number(number));
    await world.succeeds("DEL", 0, options);
  });

  it("serves pods of a Kubernetes API server, whose endpoints are in etcd", async () => {
    const options = await webPod();
    const kubeconfig = await cluster.kubeconfigFor("agent");
    const args = ["--kubeconfig", kubeconfig, "--otlp-endpoint", OTLP_ENDPOINT];
    await using world = await World.create({ args, reaches: cluster });
    using receiver = await OtlpReceiver.start(world.machine.node);
    await world.sandboxes(1);
    await world.add(0, options);
    const [endpoint = ""] = (await etcd.contents("/calico/resources/v3/projectcalico.org/workloadendpoints/test/")).values();
    expect(JSON.parse(endpoint)).toMatchObject({ metadata: { labels: { app: "shop" } }, spec: { pod: "web", node: "node1" } });
    await world.succeeds("CHECK", 0, options);
    await world.succeeds("DEL", 0, options);
    expect(await world.machine.held()).toEqual([]);

    // What each server was asked is a part of the call's trace.
    await world.agent.stop();
    const [add] = receiver.named("CNI ADD");
    const asked = add === undefined ? [] : receiver.below(add).flatMap((step) => receiver.below(step).map(({ name }) => name));
    expect(asked).toEqual(expect.arrayContaining(["etcd /v3/kv/txn", "kernel apply"]));
  });
});
