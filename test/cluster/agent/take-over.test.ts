/**
 * Pods of a real API server that were attached before the agent began (finding H1), with Calico's objects in the API server and in etcd:
 * which of their packets pass before, during and after its start.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { startEtcd, type TestEtcd } from "../../support/etcd/etcd.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE, type PodCall } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { attachmentsCheck } from "../../support/late-agent.ts";
import { eventually, placeOf } from "../../support/policy-agent.ts";
import { Dialogue, type Place, reach } from "../../support/policy-node.ts";

const cluster = shared(startCluster);
const etcd = shared(startEtcd);

const PODS = { web: { app: "web" }, client: { role: "client" }, other: {} } as const;
type Name = keyof typeof PODS;
type EarlyPod = Place & { readonly call: PodCall; readonly hostInterface: string };

/** A node with pods of the API server, and an agent that comes later. */
class World implements AsyncDisposable {
  readonly api: ApiServerNode;
  readonly #stack: AsyncDisposableStack;
  readonly #etcd: TestEtcd | undefined;

  private constructor(api: ApiServerNode, stack: AsyncDisposableStack, store: TestEtcd | undefined) {
    this.api = api;
    this.#stack = stack;
    this.#etcd = store;
  }

  static async create(store: TestEtcd | undefined): Promise<World> {
    const stack = new AsyncDisposableStack();
    const api = stack.use(await ApiServerNode.create(cluster, { pools: ["10.71.0.0/24"], etcd: store }));
    await api.node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    // Proxy ARP answers for the pods' gateway where a route leads to it.
    for (const command of ["link add up0 type veth peer name up1", "link set up0 up", "link set up1 up", "route add default dev up0"]) {
      await api.node.ip(...command.split(" "));
    }
    mkdirSync(join(api.node.dir, "lists"));
    return new World(api, stack, store);
  }

  get netconf(): Record<string, unknown> {
    return { agent: "require", agent_socket: join(this.api.node.dir, "run/tortie.sock") };
  }

  list(keys: Readonly<Record<string, unknown>> = this.netconf): void {
    const { cniVersion, name, ...plugin } = this.api.conf(keys);
    writeFileSync(join(this.api.node.dir, "lists/10-net1.conflist"), JSON.stringify({ cniVersion, name, plugins: [plugin] }));
  }

  async startAgent(until: "local" | "ready" = "ready"): Promise<Agent> {
    const own: Record<string, string> = this.#etcd === undefined ? {} : { ETCD_ENDPOINTS: this.#etcd.endpoints };
    const args = this.#etcd === undefined ? [] : ["--datastore-type", "etcdv3"];
    const env = { CNI_NET_DIR: join(this.api.node.dir, "lists"), ...own };
    return this.#stack.use(await this.api.startAgent(args, { env, until }));
  }

  /** Attaches a pod that answers at port 80. */
  async pod(
    name: string,
    labels: Readonly<Record<string, string>>,
    conf: Readonly<Record<string, unknown>> = { agent: "off" },
  ): Promise<EarlyPod> {
    await this.api.pod(name, { labels });
    const call = { ...(await this.api.callOf(name)), conf };
    const { interfaces, ips } = await this.api.add(call);
    const program = ["/usr/bin/python3", "test/support/programs/prober.py"];
    const prober = this.#stack.use(new Dialogue(this.api.node.commandLine(program, {}, call.sandbox)));
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    return { pod: call.sandbox, prober, call, ...placeOf({ interfaces: [...interfaces], ips: [...ips] }) };
  }

  async pods(conf?: Readonly<Record<string, unknown>>): Promise<Readonly<Record<Name, EarlyPod>>> {
    const [web, client] = [await this.pod("web", PODS.web, conf), await this.pod("client", PODS.client, conf)];
    return { web, client, other: await this.pod("other", PODS.other, conf) };
  }

  async clearAlias({ hostInterface }: EarlyPod): Promise<void> {
    await this.api.node.ip("link", "set", "dev", hostInterface, "alias", "");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

const SITUATIONS: Readonly<Record<string, (world: World) => Promise<Readonly<Record<Name, EarlyPod>>>>> = {
  "by plugins before the agent was installed, or after a reboot": (world) => world.pods(),
  "by Calico's plugins, which write no alias": async (world) => {
    const pods = await world.pods();
    for (const pod of Object.values(pods)) await world.clearAlias(pod);
    return pods;
  },
  "by the agent of another boot": async (world) => {
    world.list();
    const agent = await world.startAgent();
    const pods = await world.pods(world.netconf);
    await agent.kill();
    writeFileSync(join(agent.runDir, "state", "boot-id"), "another boot\n");
    await world.api.node.run(["/usr/sbin/nft", "delete", "table", "inet", "tortie-policy"]);
    return pods;
  },
};

const verdicts = async ({ web, client, other }: Readonly<Record<Name, EarlyPod>>): Promise<string> =>
  (await Promise.all([reach(client, web, "tcp", 80), reach(other, web, "tcp", 80), reach(web, other, "tcp", 80)])).join(" ");

async function endpoints(agent: Agent): Promise<readonly unknown[]> {
  return (await agent.request("GET", "/endpoint")).json as unknown[];
}

async function linkNames({ api }: World): Promise<readonly unknown[]> {
  return (await api.node.ip("-j", "link", "show", "type", "veth")).map(({ ifname }) => ifname);
}

const CLIENTS = [{ from: [{ podSelector: { matchLabels: { role: "client" } } }] }];

describe.each([
  ["the API server", (): TestEtcd | undefined => undefined],
  ["etcd", (): TestEtcd | undefined => etcd],
] as const)("with Calico's objects in %s", (_, store) => {
  describe.each(Object.entries(SITUATIONS))("pods that were attached %s", (_, attach) => {
    it.each([
      ["no policy", undefined, "ok ok ok"],
      ["a policy that selects one of them", { podSelector: { matchLabels: { app: "web" } }, ingress: CLIENTS }, "ok timeout ok"],
      ["a policy that selects another pod", { podSelector: { matchLabels: { app: "db" } }, policyTypes: ["Ingress"] }, "ok ok ok"],
    ] as const)("are judged by %s from the agent's start on, and lose nothing else", async (_, spec, wanted) => {
      await using world = await World.create(store());
      const pods = await attach(world);
      expect(await verdicts(pods)).toBe("ok ok ok");
      world.list();
      if (spec !== undefined) await cluster.createPolicy("policy", spec, NAMESPACE);
      const steady = pods.client.prober.ask<number>("connections", { to: pods.web.address[4], port: 80, count: 2000 });
      const agent = await world.startAgent();
      expect(await eventually(wanted, () => verdicts(pods), 30_000)).toBe(wanted);
      expect(await steady).toBe(0);
      expect(await verdicts(pods)).toBe(wanted);
      expect(await attachmentsCheck(agent)).toMatchObject({ state: "ok" });
      expect(await endpoints(agent)).toHaveLength(3);
      for (const { call } of Object.values(pods)) await world.api.del({ ...call, conf: world.netconf });
      expect(await endpoints(agent)).toEqual([]);
      expect(await world.api.held()).toEqual({});
      expect(await world.api.node.ip("-j", "route", "show", "10.71.0.0/24")).toEqual([]);
      for (const { hostInterface } of Object.values(pods)) expect(await linkNames(world)).not.toContain(hostInterface);
      if (spec !== undefined) await cluster.remove("networking.k8s.io/v1", "networkpolicies", "policy", NAMESPACE);
    });
  });
});

describe("an annotation that a tenant wrote", () => {
  it("makes nobody the owner of a host end", async () => {
    await using world = await World.create(undefined);
    const victim = await world.pod("victim", {});
    // The name of the link is nobody's, and another pod claims its address.
    const name = "cali00000000000";
    await world.clearAlias(victim);
    for (const words of [`link set ${victim.hostInterface} down`, `link set ${victim.hostInterface} name ${name}`, `link set ${name} up`]) {
      await world.api.node.ip(...words.split(" "));
    }
    await world.api.node.ip("route", "add", victim.address[4], "dev", name);
    const annotations = { "cni.projectcalico.org/podIP": `${victim.address[4]}/32`, "cni.projectcalico.org/containerID": "c-thief" };
    await world.api.pod("thief", { labels: { app: "thief" }, annotations });
    world.list();
    const agent = await world.startAgent();
    await agent.looks("take-over", 1);
    expect(await endpoints(agent)).toEqual([]);
    const check = await attachmentsCheck(agent);
    expect(check).toMatchObject({ state: "warning", message: expect.stringContaining(`${name} (${victim.address[4]})`) });
    expect(check?.message).toContain("it is open");
    // A policy that selects no pod that it could be changes nothing; one that does closes it.
    await cluster.createPolicy("elsewhere", { podSelector: { matchLabels: { app: "db" } }, policyTypes: ["Ingress"] }, NAMESPACE);
    await Bun.sleep(500);
    expect((await attachmentsCheck(agent))?.message).toContain("it is open");
    await cluster.createPolicy("thief", { podSelector: { matchLabels: { app: "thief" } }, policyTypes: ["Ingress"] }, NAMESPACE);
    const isClosed = async () => (await attachmentsCheck(agent))?.message.includes("it is closed") === true;
    expect(await eventually(true, isClosed)).toBe(true);
    await cluster.remove("networking.k8s.io/v1", "networkpolicies", "thief", NAMESPACE);
    expect(await eventually(false, isClosed)).toBe(false);
    await cluster.remove("networking.k8s.io/v1", "networkpolicies", "elsewhere", NAMESPACE);
    await world.api.node.ip("link", "del", name);
    await world.api.del(victim.call);
  });
});

it("asks the API server for the blocks once, however many pods were there", async () => {
  await using world = await World.create(undefined);
  const pods = [];
  for (let number = 0; number < 12; number++) pods.push(await world.pod(`p${number}`, {}));
  for (const pod of pods) await world.clearAlias(pod);
  world.list();
  const mark = await cluster.mark();
  const agent = await world.startAgent();
  await agent.until("12 endpoints", async () => (await endpoints(agent)).length === 12);
  const asked = (await cluster.requests(mark)).map(({ verb, uri }) => `${verb} ${uri}`).filter((one) => one.includes("ipamblocks"));
  const lists = asked.filter((one) => one.startsWith("list"));
  expect([asked.filter((one) => one.startsWith("get")), lists.length]).toEqual([[], expect.any(Number)]);
  expect(lists.length).toBeLessThanOrEqual(2);
  for (const { call } of pods) await world.api.del({ ...call, conf: world.netconf });
});

it("takes over by what the node alone can prove while the API server is away, and opens policy when it is back", async () => {
  await using own = await startCluster({ own: true });
  await using api = await ApiServerNode.create(own, { pools: ["10.71.0.0/24"], pods: ["web"] });
  await api.add({ ...(await api.callOf("web")), conf: { agent: "off" } });
  mkdirSync(join(api.node.dir, "lists"));
  const netconf = { agent: "require", agent_socket: join(api.node.dir, "run/tortie.sock") };
  const { cniVersion, name, ...plugin } = api.conf(netconf);
  writeFileSync(join(api.node.dir, "lists/10-net1.conflist"), JSON.stringify({ cniVersion, name, plugins: [plugin] }));
  const kubeconfig = await own.kubeconfigFor("agent");
  const call = await api.callOf("web");
  own.freeze();
  let agent: Agent;
  try {
    const args = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig];
    agent = await Agent.start(api.node, { args, env: { CNI_NET_DIR: join(api.node.dir, "lists") }, until: "local" });
    expect(await endpoints(agent)).toHaveLength(1);
  } finally {
    own.thaw();
  }
  await using _ = agent;
  await agent.waitUntil("ready");
  await api.del({ ...call, conf: netconf });
  expect(await endpoints(agent)).toEqual([]);
});
