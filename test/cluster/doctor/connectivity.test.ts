/**
 * What a connectivity test finds between three nodes, which are namespaces here: pods by the real plugins and agents, the same probes as in a
 * cluster, and faults of the network between the nodes and of policy. Two nodes share a subnet; the third is reached by VXLAN.
 */
import { join } from "node:path";
import { somePorts } from "../../../doctor/connectivity/host-world.ts";
import { type ProbeReply, type ProbeRequest, parseReply } from "../../../doctor/connectivity/question.ts";
import { testConnectivity } from "../../../doctor/connectivity/run.ts";
import type { Check, Member, World } from "../../../doctor/connectivity/world.ts";
import type { CheckResult, Report } from "../../../doctor/report.ts";
import { podHostInterfaceName } from "../../../lib/workload/names.ts";
import { shared } from "../../support/fixtures.ts";
import { startProcess } from "../../support/kubernetes/process.ts";
import { type StoredObject, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, type Pod as Sandbox } from "../../support/node.ts";
import { type Machine, NAMESPACE, ThreeNodes, type WorldPod } from "../../support/three-nodes.ts";

const TORTIECTL = join(BIN_DIR, "tortiectl");
const LIMIT_MS = 60_000;
const LABELS = { closed: { app: "closed" } };

/** The three nodes as a connectivity test sees a cluster. */
class NamespacesAsNodes implements World {
  readonly nodes: readonly string[];
  readonly members: Member[] = [];
  readonly ports = somePorts();
  readonly lacks = { "host-port": "no portmap", egress: "no outside", dns: "no name server", bandwidth: "no plugin" };
  readonly outside = [];
  readonly lookup = { server: undefined, name: "" };
  readonly limit = { bitsPerSecond: 1, isPromised: false };
  readonly isPolicyPromised = true;
  readonly found = [];
  readonly #world: ThreeNodes;
  readonly #clients = new Map<string, Sandbox>();

  constructor(world: ThreeNodes) {
    this.#world = world;
    this.nodes = world.machines.map(({ name }) => name);
  }

  async make(): Promise<void> {
    for (const machine of this.#world.machines) {
      const { name: node, ipv4, ipv6 } = machine;
      for (const role of ["web", "closed"] as const) this.members.push(await this.#add(machine, role));
      this.members.push({ role: "host", name: `host-${node}`, node, addresses: [ipv4, ipv6] });
      this.#serve(machine, `host-${node}`, [this.ports.serve]);
      const client = await this.#attach(machine, `client-${node}`, {});
      this.#clients.set(node, client.sandbox);
    }
  }

  async ask(node: string, from: "pod" | "host", request: ProbeRequest): Promise<ProbeReply> {
    const machine = this.#world.machines.find(({ name }) => name === node);
    const line = [TORTIECTL, "connectivity", "probe", JSON.stringify(request)];
    const run = await machine?.host.run(line, {}, from === "pod" ? this.#clients.get(node) : undefined);
    if (run?.exit !== 0) throw new Error(`probe: ${run?.exit} ${run?.stderr}`);
    return parseReply(run.stdout);
  }

  // The nodes remove what is on them.
  async [Symbol.asyncDispose](): Promise<void> {}

  async #add(machine: Machine, role: "web" | "closed"): Promise<Member> {
    const name = `${role}-${machine.name}`;
    const { sandbox, ipv4, ipv6 } = await this.#attach(machine, name, role === "closed" ? LABELS.closed : {});
    const { serve, closed } = this.ports;
    this.#serve(machine, name, role === "closed" ? [serve, closed] : [serve], sandbox);
    return { role, name, node: machine.name, addresses: [ipv4, ipv6], hostEnd: podHostInterfaceName(NAMESPACE, name) };
  }

  async #attach(machine: Machine, name: string, labels: Readonly<Record<string, string>>) {
    await this.#world.cluster.createPod(name, { namespace: NAMESPACE, node: machine.name, labels });
    return this.#world.attachPod(machine, NAMESPACE, name);
  }

  #serve({ host }: Machine, name: string, ports: readonly number[], sandbox?: Sandbox): void {
    const line = [TORTIECTL, "connectivity", "serve", "--name", name, "--ports", ports.join(",")];
    startProcess(host.commandLine(line, {}, sandbox), join(host.dir, "serve.log"));
  }
}

const cluster = shared(startCluster);
const three = shared(() => ThreeNodes.create(cluster));
let world: NamespacesAsNodes;
beforeAll(async () => {
  await three.pool("pool4", "10.70.0.0/24", { vxlanMode: "CrossSubnet" });
  await three.pool("pool6", "fd70::/112", { vxlanMode: "CrossSubnet" });
  await Promise.all(three.machines.map((machine) => machine.startAgent()));
  const all = <T>(ask: (machine: Machine) => Promise<T>) => Promise.all(three.machines.map(ask));
  const hasTunnels = async () => (await all((one) => one.annotations())).every((one) => "projectcalico.org/IPv6VXLANTunnelAddr" in one);
  await until("the tunnels", hasTunnels, LIMIT_MS);
  await until("the MTU", async () => (await all((one) => one.mtuFile())).every((text) => text === "1430"), LIMIT_MS);
  world = new NamespacesAsNodes(three);
  const spec = { podSelector: { matchLabels: LABELS.closed }, ingress: [{ ports: [{ protocol: "TCP", port: world.ports.serve }] }] };
  await cluster.createPolicy("closed", spec, NAMESPACE);
  await world.make();
});

function tried(...only: readonly Check[]): Promise<readonly CheckResult[]> {
  const options = { only: only.length === 0 ? undefined : only, timeoutMs: 4_000, signal: new AbortController().signal };
  return testConnectivity(world, options);
}

function rowsOf(results: readonly CheckResult[], status: CheckResult["status"]): readonly string[] {
  return results.filter((one) => one.status === status).map(({ check, object }) => `${check} ${object}`);
}

const DIRECTIONS = ["node node1 to node2", "node node2 to node3", "node node3 to node1"];
const both = (check: string, objects: readonly string[]) =>
  objects.flatMap((object) => [4, 6].map((family) => `${check} ${object}, IPv${family}`));

it("passes between all of them, by routes and by VXLAN, with policy in force", async () => {
  await until("routes between all nodes", async () => rowsOf(await tried("other-node"), "failed").length === 0, LIMIT_MS);
  const results = await tried();
  expect(results.filter(({ status }) => status === "failed" || status === "warning")).toEqual([]);
  const own = ["node node1", "node node2", "node node3"];
  expect(rowsOf(results, "ok")).toEqual([
    ...both("same-node", own),
    ...both("other-node", DIRECTIONS),
    ...["host-to-pod", "pod-to-host"].flatMap((check) => both(check, own)),
    ...both("path-mtu", DIRECTIONS),
    ...["source-check", "policy"].flatMap((check) => both(check, own)),
  ]);
});

/** Breaks something while the agents stand still, so that they do not mend it, and makes it whole again. */
async function broken<T>(breakIt: readonly [Machine["host"], string], mend: string, look: () => Promise<T>): Promise<T> {
  const [host, script] = breakIt;
  const shell = async (text: string) => {
    const { exit, stderr } = await host.run(["/bin/sh", "-euc", text]);
    if (exit !== 0) throw new Error(`${text}: ${stderr}`);
  };
  for (const { agent } of three.machines) process.kill(agent.pid, "SIGSTOP");
  try {
    await shell(script);
    return await look();
  } finally {
    await shell(mend);
    for (const { agent } of three.machines) process.kill(agent.pid, "SIGCONT");
  }
}

function failuresOf(results: readonly CheckResult[]): readonly string[] {
  return results
    .filter(({ status }) => status === "failed")
    .map(({ check, object, message, next }) => `${check} ${object}: ${message} next ${next}`);
}

describe("a fault between the nodes", () => {
  it("a route to the other node's block that is gone is found where it is missing", async () => {
    const [, second] = three.three;
    const [route = ""] = (await second.routes(4)).filter((text) => text.includes("vxlan"));
    const found = failuresOf(
      await broken([second.host, `ip route del ${route.replace(/ \w+$/, "")}`], `ip route add ${route} proto 84 || true`, () =>
        tried("other-node"),
      ),
    );
    expect(found.length).toBeGreaterThan(0);
    for (const text of found)
      expect(text).toMatch(
        /other-node .*IPv4: .*node node2 has no route of its own to 10\.70\.0\.\d+ of node node\d, and hands it to the router 172\.20\.1\.254.*next tortiectl node status on node2/,
      );
  });

  it("a firewall that closes the tunnel's port is told from a missing route", async () => {
    const script = "nft 'table inet closed { chain c { type filter hook forward priority 0; udp dport 4789 drop; }; }'";
    const found = failuresOf(await broken([three.router, script], "nft delete table inet closed", () => tried("other-node")));
    expect(found.map((text) => text.replace(/:.*/, ""))).toEqual(both("other-node", DIRECTIONS.slice(1)));
    for (const text of found) expect(text).toMatch(/the tunnel's packets get lost between the nodes next let UDP port 4789 pass/);
  });

  it("a path that carries less than the pods' MTU, and says nothing, is found though connections come about", async () => {
    const [first] = three.three;
    const port = first.host.name;
    const found = failuresOf(
      await broken(
        [three.router, `ip link set '${port}' mtu 1280 2>/dev/null || ip link set node1 mtu 1280`],
        `ip link set '${port}' mtu 1500 2>/dev/null || ip link set node1 mtu 1500`,
        () => tried("other-node", "path-mtu"),
      ),
    );
    expect(found.map((text) => text.replace(/:.*/, ""))).toEqual(expect.arrayContaining(both("path-mtu", ["node node1 to node2"])));
    for (const text of found)
      expect(text).toMatch(/^path-mtu .*get lost, small ones pass: the path carries less than 1430 bytes.*next set "mtu" of the list/);
  });
});

it("a policy whose rule is gone from the kernel is found, since somebody has promised to enforce it", async () => {
  const [first] = three.three;
  const script = "nft -a list chain inet tortie-policy ingress-denied > /dev/null; nft flush chain inet tortie-policy ingress-denied";
  const found = failuresOf(await broken([first.host, script], "true", () => tried("policy")));
  expect(found.map((text) => text.replace(/:.*/, ""))).toEqual(both("policy", ["node node1"]));
  for (const text of found) expect(text).toMatch(/a port that a policy closes answers, although policy is on next tortiectl policy check/);
});

/** Runs the pods of the command's tests as far as kubelets would: real ADDs, the pods' own commands, and their status. */
class Kubelets implements AsyncDisposable {
  readonly #three: ThreeNodes;
  readonly #attached: WorldPod[] = [];
  readonly #started: Promise<void>[] = [];
  #isOver = false;
  readonly #loop: Promise<void>;

  constructor(nodes: ThreeNodes) {
    this.#three = nodes;
    this.#loop = this.#run();
  }

  /** Names of the nodes whose pods were started. */
  readonly nodes = new Set<string>();

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await this.#loop;
    await Promise.all(this.#started);
    await Promise.all(this.#attached.map((pod) => this.#three.removePod(pod)));
  }

  async #run(): Promise<void> {
    for (; !this.#isOver; await Bun.sleep(100)) {
      for (const pod of await cluster.list("v1", "pods")) {
        const { uid = "", namespace = "" } = pod.metadata;
        if (!namespace.startsWith("tortie-connectivity-") || SEEN.has(uid)) continue;
        SEEN.add(uid);
        this.#started.push(this.#start(pod));
      }
    }
  }

  async #start({ metadata: { name, namespace = "" }, spec }: StoredObject): Promise<void> {
    const { nodeName, hostNetwork, containers } = spec as { nodeName: string; hostNetwork?: boolean; containers: { command: string[] }[] };
    const machine = this.#three.machines.find((one) => one.name === nodeName);
    if (machine === undefined) throw new Error(`a pod for ${nodeName}`);
    this.nodes.add(nodeName);
    const attached = hostNetwork === true ? undefined : await this.#three.attachPod(machine, namespace, name);
    if (attached !== undefined) this.#attached.push(attached);
    const { ipv4, ipv6 } = attached ?? machine;
    const [, ...words] = containers[0]?.command ?? [];
    const status = { podIP: ipv4, podIPs: [{ ip: ipv4 }, { ip: ipv6 }] };
    const say = (phase: string, state: object) =>
      cluster.api("PATCH", `/api/v1/namespaces/${namespace}/pods/${name}/status`, {
        status: { ...status, phase, containerStatuses: [{ ...CONTAINER, state }] },
      });
    if (words[1] === "serve") {
      startProcess(machine.host.commandLine([TORTIECTL, ...words], {}, attached?.sandbox), join(machine.host.dir, "serve.log"));
      await say("Running", { running: {} });
      return;
    }
    const { exit, stdout } = await machine.host.run([TORTIECTL, ...words.filter((word) => !REPLY.includes(word))], {}, attached?.sandbox);
    await say("Succeeded", { terminated: { exitCode: exit ?? 1, message: stdout } });
  }
}

/** Pods of the tests before stay: nobody takes their namespaces away. */
const SEEN = new Set<string>();
const CONTAINER = { name: "probe", image: "tortie:1", imageID: "", ready: true, restartCount: 0 };
const REPLY: readonly string[] = ["--reply", "/dev/termination-log"];

describe("the command in a cluster", () => {
  const command = (...options: readonly string[]) =>
    Bun.spawn([TORTIECTL, "connectivity", "test", "--kubeconfig", cluster.adminKubeconfig, ...options], {
      env: { PATH: process.env.PATH ?? "" },
      stdout: "pipe",
      stderr: "pipe",
    });
  const CHOSEN = ["--node", "node2", "--node", "node3", "--image", "tortie:1"];
  const reported = async (child: ReturnType<typeof command>): Promise<Report> => {
    const text = await new Response(child.stdout as ReadableStream).text();
    if (!text.startsWith("{")) throw new Error(text);
    return JSON.parse(text);
  };
  const namespaces = async () =>
    (await cluster.list("v1", "namespaces")).filter(({ metadata: { labels } }) => labels?.["tortie.dev/connectivity-test"] === "true");
  /** No controller is here that takes a namespace away: that somebody has asked for it is what the command does. */
  const areGoing = async () => (await namespaces()).every(({ metadata }) => "deletionTimestamp" in metadata);

  it("tries between the nodes that are named, and on no other", async () => {
    await using kubelets = new Kubelets(three);
    const { results } = await reported(command("--json", ...CHOSEN, "--only", "other-node", "--only", "policy", "--timeout", "10"));
    expect(rowsOf(results, "ok")).toEqual([
      ...both("other-node", ["node node2 to node3", "node node3 to node2"]),
      ...both("policy", ["node node2", "node node3"]),
    ]);
    expect(results.filter(({ status }) => status !== "ok")).toEqual([]);
    expect([...kubelets.nodes].sort()).toEqual(["node2", "node3"]);
    expect(await areGoing()).toBe(true);
    const child = command("--json", "--node", "node1", "--node", "elsewhere", "--image", "tortie:1");
    expect(await reported(child)).toMatchObject({ error: { word: "option-invalid", message: "--node: there is no node elsewhere" } });
  });

  it.each(["SIGINT", "SIGTERM"] as const)("removes its namespace at %s, says so and ends with 1", async (signal) => {
    await using kubelets = new Kubelets(three);
    const child = command(...CHOSEN);
    await until("pods on both nodes", () => kubelets.nodes.size === 2, LIMIT_MS);
    expect(await areGoing()).toBe(false);
    child.kill(signal);
    expect(await child.exited).toBe(1);
    expect(await new Response(child.stderr).text()).toContain("interrupted: the pods of the test are being removed");
    expect(await areGoing()).toBe(true);
  });

  it("warns that nobody enforces policies where nobody has promised it, and the closed port answers", async () => {
    const [first] = three.three;
    await first.stopAgent();
    await first.startAgent({ args: ["--policy", "off"] });
    await using _kubelets = new Kubelets(three);
    const child = command("--json", "--node", "node1", "--image", "tortie:1", "--only", "policy");
    const { results } = await reported(child);
    expect(rowsOf(results, "warning")).toEqual(both("policy", ["node node1"]));
    for (const { message, next } of results)
      expect(`${message} next ${next}`).toMatch(/^nobody enforces NetworkPolicy: .* next turn it on \(docs\/how-to\/enforce-policy\.md\)/);
    expect(await child.exited).toBe(0);
    await first.stopAgent();
    await first.startAgent();
  });
});
