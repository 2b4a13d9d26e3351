/**
 * Three nodes of one cluster as network namespaces of this machine: two in one subnet, the third behind a router that knows nothing of
 * pods. Each has its own agent, its own files and its own plugin; all have one API server.
 */
import { Agent, type AgentOptions } from "./agent.ts";
import { addressesOf } from "./cni-result.ts";
import { connectNode } from "./kubernetes/connect-node.ts";
import { startProcess } from "./kubernetes/process.ts";
import type { PodOptions } from "./kubernetes/resources.ts";
import { LEGACY, type TestCluster } from "./kubernetes/test-cluster.ts";
import { type JsonRecord, Node, type Pod as Sandbox } from "./node.ts";

export const NAMESPACE = "test";
/** Subnet of each node, and its number there. */
const PLACES = [
  { subnet: 1, host: 1 },
  { subnet: 1, host: 2 },
  { subnet: 2, host: 3 },
] as const;
const ROUTER = 254;
/** What pods listen on. */
const PORT = 8080;

export interface WorldPod {
  readonly namespace: string;
  readonly name: string;
  readonly machine: Machine;
  readonly sandbox: Sandbox;
  readonly ipv4: string;
  readonly ipv6: string;
  readonly container: string;
}

/** One node: its namespace, its agent, its place. */
export class Machine {
  readonly name: string;
  readonly host: Node;
  readonly ipv4: string;
  readonly ipv6: string;
  readonly #world: ThreeNodes;
  readonly #number: number;
  #agent: Agent | undefined;

  constructor(world: ThreeNodes, host: Node, name: string, { subnet, host: number }: (typeof PLACES)[number]) {
    this.#world = world;
    this.#number = number;
    this.host = host;
    this.name = name;
    this.ipv4 = `172.20.${subnet}.${number}`;
    this.ipv6 = `fd20:${subnet}::${number}`;
  }

  get agent(): Agent {
    if (this.#agent === undefined) throw new Error(`${this.name} has no agent`);
    return this.#agent;
  }

  /** The Node object, as kubelet makes it, with the ranges that host scope goes by. */
  async register(): Promise<void> {
    const addresses = [
      { type: "Hostname", address: this.name },
      { type: "InternalIP", address: this.ipv4 },
      { type: "InternalIP", address: this.ipv6 },
    ];
    const podCIDRs = [`10.80.${this.#number}.0/24`, `fd80:${this.#number}::/112`];
    const metadata = { name: this.name, labels: { "kubernetes.io/hostname": this.name } };
    await this.#world.cluster.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata,
      spec: { podCIDR: podCIDRs[0], podCIDRs },
      status: { addresses },
    });
  }

  /** @param intervals "real": the agent looks as often as everywhere; "short": once a second, for tests of what only a look finds */
  async startAgent(options: AgentOptions = {}, intervals: "real" | "short" = "short"): Promise<void> {
    const kubeconfig = await this.#world.cluster.kubeconfigFor("agent");
    const cluster = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig, "--node-name", this.name];
    const often = intervals === "short" ? ["--max-controller-interval", "1"] : [];
    const args = [...cluster, "--node-routes", "vxlan", ...often, ...(options.args ?? [])];
    this.#agent = await Agent.start(this.host, { ...options, args });
  }

  async stopAgent(): Promise<void> {
    await this.#agent?.[Symbol.asyncDispose]();
  }

  /** `ip -j` of this node's routes to one family that the agent has made, as texts in order. */
  async routes(family: 4 | 6): Promise<string[]> {
    const found = await this.host.ip("-j", `-${family}`, "route", "show", "proto", "84");
    return found.map(textOf).sort();
  }

  /** "via 172.20.1.2 dev eth0" for an address. */
  async wayTo(address: string): Promise<string> {
    const [route = {}] = await this.host.ip("-j", "route", "get", address);
    return [...(route.gateway === undefined ? [] : ["via", route.gateway]), "dev", route.dev].join(" ");
  }

  /** What the health document says of the routes. */
  async health(): Promise<{ readonly state: string; readonly message: string }> {
    const { json } = await this.agent.request("GET", "/healthz");
    const { checks } = json as { checks: { name: string; state: string; message: string }[] };
    return checks.find(({ name }) => name === "node-routes") ?? { state: "absent", message: "" };
  }

  /** What new pods take their MTU from. */
  async mtuFile(): Promise<string> {
    return (await this.host.run(["/bin/cat", "/var/lib/calico/mtu"])).stdout.trim();
  }

  async annotations(): Promise<Readonly<Record<string, string>>> {
    return (await this.#world.cluster.get("v1", "nodes", this.name))?.metadata.annotations ?? {};
  }
}

function textOf({ type, dst, gateway, dev, flags }: JsonRecord): string {
  if (type === "blackhole") return `blackhole ${dst}`;
  return [dst, ...(gateway === undefined ? [] : ["via", gateway]), "dev", dev, ...(flags as string[])].join(" ");
}

export class ThreeNodes implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly router: Node;
  readonly machines: readonly Machine[];
  readonly #kubeconfig: string;
  #containers = 0;

  private constructor(cluster: TestCluster, router: Node, hosts: readonly Node[], kubeconfig: string) {
    this.cluster = cluster;
    this.router = router;
    this.#kubeconfig = kubeconfig;
    this.machines = PLACES.map((place, index) => new Machine(this, hosts[index] ?? router, `node${index + 1}`, place));
  }

  /** On an empty cluster, with Node objects and no pool; no agent runs yet. */
  static async create(cluster: TestCluster): Promise<ThreeNodes> {
    await cluster.reset();
    await cluster.setReady(true);
    await cluster.createNamespace(NAMESPACE);
    const router = await Node.create();
    const hosts = await Promise.all(PLACES.map(() => Node.create({ binds: { "/var/lib/calico": "calico" } })));
    const world = new ThreeNodes(cluster, router, hosts, await cluster.kubeconfigFor("cni"));
    await world.#wire();
    for (const machine of world.machines) {
      machine.host.holders.add(cluster);
      await connectNode(machine.host, cluster);
      await machine.register();
    }
    return world;
  }

  get three(): [Machine, Machine, Machine] {
    const [first, second, third] = this.machines;
    if (first === undefined || second === undefined || third === undefined) throw new Error("there are three machines");
    return [first, second, third];
  }

  pool(name: string, cidr: string, options: Readonly<Record<string, unknown>> = {}) {
    return this.cluster.createPool(name, { group: LEGACY, cidr, blockSize: cidr.includes(":") ? 122 : 26, ...options });
  }

  /** A pod with addresses of both families, which answers connections with its name. */
  async addPod(machine: Machine, name: string, conf: Readonly<Record<string, unknown>> = {}, options: PodOptions = {}): Promise<WorldPod> {
    await this.cluster.createPod(name, { ...options, namespace: NAMESPACE, node: machine.name });
    const pod = await this.attachPod(machine, NAMESPACE, name, conf);
    const listen = ["/usr/bin/socat", `TCP6-LISTEN:${PORT},fork,reuseaddr,ipv6-v6only=0`, `SYSTEM:echo ${name}`];
    startProcess(["/usr/sbin/ip", "netns", "exec", pod.sandbox.name, ...listen], `${machine.host.dir}/socat.log`);
    return pod;
  }

  /** A sandbox and its ADD, for a pod whose object is there. */
  async attachPod(machine: Machine, namespace: string, name: string, conf: Readonly<Record<string, unknown>> = {}): Promise<WorldPod> {
    const sandbox = await machine.host.addPod(`${namespace}-${name}`);
    const container = `c${++this.#containers}`;
    const run = await machine.host.cni("ADD", { ...this.#call({ machine, namespace, name, container }, conf), pod: sandbox });
    if (run.exit !== 0) throw new Error(`ADD of ${name}: exit ${run.exit}: ${run.stdout}${run.stderr}\n${machine.agent.log}`);
    const ips = addressesOf(run.json);
    const find = (isSixth: boolean) => ips.find((ip) => ip.includes(":") === isSixth) ?? "";
    return { namespace, name, machine, sandbox, container, ipv4: find(false), ipv6: find(true) };
  }

  async removePod(pod: WorldPod): Promise<void> {
    const { namespace, name, machine, sandbox } = pod;
    await this.detachPod(pod);
    if ((await this.cluster.get("v1", "pods", name, namespace)) !== undefined) await this.cluster.remove("v1", "pods", name, namespace);
    await machine.host.removePod(sandbox);
  }

  /** Its DEL; object and sandbox stay. */
  async detachPod(pod: WorldPod): Promise<void> {
    const { name, machine, sandbox } = pod;
    const run = await machine.host.cni("DEL", { ...this.#call(pod, {}), pod: sandbox });
    if (run.exit !== 0) throw new Error(`DEL of ${name}: exit ${run.exit}: ${run.stdout}${run.stderr}`);
  }

  /** What a pod is answered at its first try; "" when nobody answers. */
  async connect(from: WorldPod, address: string): Promise<string> {
    const target = address.includes(":") ? `TCP6:[${address}]:${PORT}` : `TCP4:${address}:${PORT}`;
    const { stdout } = await from.machine.host.run(["/usr/bin/socat", "-u", `${target},connect-timeout=20`, "-"], {}, from.sandbox);
    return stdout.trim();
  }

  /** Which of the pods get no answer from which others, by either family. */
  async unreached(pods: readonly WorldPod[]): Promise<readonly string[]> {
    const pairs = pods.flatMap((from) => pods.flatMap((to) => (from === to ? [] : [to.ipv4, to.ipv6].map((ip) => ({ from, to, ip })))));
    const answers = await Promise.all(
      pairs.map(async ({ from, to, ip }) => ((await this.connect(from, ip)) === to.name ? [] : [{ from, ip }])),
    );
    return answers.flat().map(({ from, ip }) => `${from.name} → ${ip}`);
  }

  /**
   * One echo request with so many bytes of IP packet, which must not be fragmented.
   * @param source when it is not to be the pod's own address
   * @returns what ping has printed
   */
  async ping(
    from: WorldPod,
    address: string,
    bytes = 84,
    source?: string,
  ): Promise<{ readonly isAnswered: boolean; readonly output: string }> {
    const headers = address.includes(":") ? 48 : 28;
    const binding = source === undefined ? [] : ["-I", source];
    const line = ["/usr/bin/ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", String(bytes - headers), ...binding, address];
    const { exit, stdout, stderr } = await from.machine.host.run(line, {}, from.sandbox);
    return { isAnswered: exit === 0, output: stdout + stderr };
  }

  /** A namespace on the wire of a subnet, with an address of each family and the way to the others. */
  async attach(host: Node, name: string, { subnet, host: number }: { readonly subnet: number; readonly host: number }): Promise<void> {
    const { router } = this;
    await host.ip("link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", router.name);
    await router.ip("link", "set", name, "master", `subnet${subnet}`, "up");
    await host.ip("address", "add", `172.20.${subnet}.${number}/24`, "dev", "eth0");
    await host.ip("address", "add", `fd20:${subnet}::${number}/64`, "dev", "eth0", "nodad");
    await host.ip("link", "set", "eth0", "up");
    await host.ip("route", "add", "default", "via", `172.20.${subnet}.${ROUTER}`);
    await host.ip("route", "add", "default", "via", `fd20:${subnet}::${ROUTER}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const machine of this.machines) await machine.stopAgent();
    for (const { host } of this.machines) await host[Symbol.asyncDispose]();
    await this.router[Symbol.asyncDispose]();
  }

  /** Names of the call that ADD and DEL have in common. */
  #call(
    { machine, namespace, name, container }: Pick<WorldPod, "machine" | "namespace" | "name" | "container">,
    change: Readonly<Record<string, unknown>>,
  ) {
    return {
      plugin: "calico",
      containerId: container,
      args: `K8S_POD_NAME=${name};K8S_POD_NAMESPACE=${namespace};K8S_POD_INFRA_CONTAINER_ID=${container}`,
      conf: {
        cniVersion: "1.0.0",
        name: "net1",
        type: "calico",
        datastore_type: "kubernetes",
        nodename: machine.name,
        nodename_file_optional: true,
        ipam_lock_file: `${machine.host.dir}/ipam.lock`,
        ipam: { type: "calico-ipam", assign_ipv4: "true", assign_ipv6: "true" },
        policy: { type: "k8s" },
        kubernetes: { kubeconfig: this.#kubeconfig },
        ...machine.agent.netconf,
        ...change,
      },
    };
  }

  /** A bridge for each subnet in the router's namespace, which has the subnet's last address and forwards between them. */
  async #wire(): Promise<void> {
    const { router } = this;
    for (const path of ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]) {
      await router.run(["/bin/sh", "-c", `echo 1 > /proc/sys/${path}`]);
    }
    for (const subnet of [1, 2]) {
      await router.ip("link", "add", `subnet${subnet}`, "type", "bridge");
      await router.ip("link", "set", `subnet${subnet}`, "up");
      await router.ip("address", "add", `172.20.${subnet}.${ROUTER}/24`, "dev", `subnet${subnet}`);
      await router.ip("address", "add", `fd20:${subnet}::${ROUTER}/64`, "dev", `subnet${subnet}`, "nodad");
    }
    for (const [index, place] of PLACES.entries()) {
      const { host, name } = this.machines[index] ?? never();
      await this.attach(host, name, place);
    }
  }
}

function never(): never {
  throw new Error("there are as many machines as places");
}
