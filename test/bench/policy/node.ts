/**
 * What policy costs a whole agent on a node of a large cluster: 10,000 pods as the endpoints of a real etcd, 1,000 policies in files, 110 pods
 * of its own. How long until the kernel holds all of it, what memory that takes beside the same agent without policy, and how long until a
 * change is in the kernel, whose news of its table is listened to.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { openEtcdDatastore } from "../../../lib/datastore/etcd/etcd-datastore.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { Agent } from "../../support/agent.ts";
import { callAgent } from "../../support/agent-calls.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import type { Node } from "../../support/node.ts";
import { policy } from "../../support/policy-agent.ts";
import { workloadEndpointOf } from "../../support/workload-endpoint.ts";
import { median, row } from "../statistics.ts";

const PODS = 10_000;
const NAMESPACES = 50;
const LABEL_SETS = 1_000;
const POLICIES = 1_000;
const ENDPOINTS = 110;
const STARTS = 3;
const CHANGES = 60;
/** Before each change: nothing comes of the one before, and the pause between two passes is over. */
const REST_MS = 500;
/** For so long a file must stay as it is before it counts (docs/project/decisions.md): no part of the work that a bar is about. */
const FILE_SETTLED_MS = 250;
/** Until what a start has taken is given back. */
const SETTLE_MS = 30_000;
const LOOK_MS = 50;
const AT_ONCE = 16;

const namespaceOf = (labelSet: number) => `n${labelSet % NAMESPACES}`;
const labelsOf = (labelSet: number) => ({ app: `a${labelSet}`, tier: `t${labelSet % 7}`, hash: `h${labelSet}` });

/** The endpoint of a pod of another node. */
function remote(index: number, labelSet = index % LABEL_SETS): WorkloadEndpoint {
  const [node, pod] = [`node${2 + (index % 100)}`, `p${index}`];
  const addresses = [`10.${64 + (index >> 14)}.${(index >> 8) & 63}.${index & 255}`, `fd01::${index.toString(16)}`];
  const plain = workloadEndpointOf({ node, containerId: `c${index}`, network: "net1", addresses });
  const name = `${node}-k8s-${pod}-eth0`;
  return { ...plain, name, namespace: namespaceOf(index % LABEL_SETS), orchestrator: "k8s", pod, labels: labelsOf(labelSet) };
}

/** A policy of a thousand: two selectors of pods, one of namespaces, a block, and an interval of ports. */
function policyOf(index: number): object {
  const friend = (offset: number) => ({ podSelector: { matchLabels: { app: `a${(index + offset * NAMESPACES) % LABEL_SETS}` } } });
  const block = `172.${16 + (index % 16)}.0.0/16`;
  const spec = {
    podSelector: { matchLabels: { app: `a${index % LABEL_SETS}` } },
    policyTypes: ["Ingress", "Egress"],
    ingress: [
      { from: [friend(1), friend(2)], ports: [{ port: 8000 }, { port: 9000, endPort: 9100 }] },
      { from: [{ namespaceSelector: { matchLabels: { team: `m${index % 10}` } }, podSelector: { matchLabels: { tier: "t1" } } }] },
      { from: [{ ipBlock: { cidr: block, except: [block.replace(".0.0/16", `.${index % 256}.0/24`)] } }] },
    ],
    egress: [{ to: [friend(3)], ports: [{ port: 8080 }] }, { ports: [{ port: 53, protocol: "UDP" }] }],
  };
  return policy(`policy-${index}`, spec, namespaceOf(index));
}

/** Each is of a label set that a policy selects. */
const labelSetOfOwn = (at: number) => (90 * at) % LABEL_SETS;
const ownNamespaces = [...new Set(Array.from({ length: ENDPOINTS }, (_, at) => namespaceOf(labelSetOfOwn(at))))];

/** Policies that select every pod of this node. */
function everyPod(port: number): readonly object[] {
  const spec = { podSelector: {}, ingress: [{ from: [{ podSelector: { matchLabels: { tier: "t2" } } }], ports: [{ port }] }] };
  return ownNamespaces.map((namespace) => policy("all", spec, namespace));
}

function write(directory: string, name: string, documents: readonly object[]): void {
  const draft = join(directory, "..", "draft");
  writeFileSync(draft, documents.map((document) => `${JSON.stringify(document)}\n`).join("---\n"));
  renameSync(draft, join(directory, `${name}.yaml`));
}

function writePolicies(directory: string): void {
  for (let at = 0; at < NAMESPACES; at++) {
    const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: `n${at}`, labels: { team: `m${at % 10}` } } };
    const own = Array.from({ length: POLICIES / NAMESPACES }, (_, number) => policyOf(at + number * NAMESPACES));
    write(directory, `n${at}`, [namespace, ...own]);
  }
}

/** Says when the kernel's table of policy changes. */
class TableNews implements Disposable {
  readonly #nft: ChildProcess;
  #next = Promise.withResolvers<number>();
  #last = performance.now();

  constructor(node: Node) {
    const line = node.commandLine(["/usr/bin/stdbuf", "-oL", "/usr/sbin/nft", "monitor"]);
    this.#nft = spawn(line[0] ?? "", line.slice(1), { stdio: ["ignore", "pipe", "inherit"] });
    if (this.#nft.stdout === null) throw new Error("nft monitor has no output");
    createInterface({ input: this.#nft.stdout }).on("line", (text) => {
      if (!text.includes("tortie-policy")) return;
      this.#last = performance.now();
      this.#next.resolve(this.#last);
    });
  }

  /** @returns milliseconds from when the work is done until the table changes */
  async after(work: () => Promise<unknown>): Promise<number> {
    while (performance.now() - this.#last < REST_MS) await Bun.sleep(LOOK_MS);
    this.#next = Promise.withResolvers();
    await work();
    const done = performance.now();
    return (await this.#next.promise) - done;
  }

  [Symbol.dispose](): void {
    this.#nft.kill();
  }
}

async function untilSo(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await Bun.sleep(LOOK_MS);
}

/** The chain that sees packets comes last. */
async function isWhole(node: Node): Promise<boolean> {
  const list = async (...what: string[]) => (await node.run(["/usr/sbin/nft", "list", ...what])).stdout;
  if (!(await list("chain", "inet", "tortie-policy", "forward")).includes("jump from-pod")) return false;
  return (await list("map", "inet", "tortie-policy", "from-endpoint")).match(/"[a-z0-9]+" : /g)?.length === ENDPOINTS;
}

/** Processor time of the whole process until now, in milliseconds. */
function processorTimeOf({ pid }: Agent): number {
  const [, , ...fields] = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/\(.*\)/, "")
    .split(" ");
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

const memoryOf = (agent: Agent) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${agent.pid}/status`, "utf8"))?.[1]) / 1024;

async function memoryAtRest(agent: Agent): Promise<number> {
  await Bun.sleep(SETTLE_MS);
  return memoryOf(agent);
}

async function attachAll(world: EtcdNode, agent: Agent): Promise<void> {
  for (let at = 0; at < ENDPOINTS; at++) {
    const pod = await world.node.addPod(`own${at}`);
    const labels = Object.entries(labelsOf(labelSetOfOwn(at))).map(([key, value]) => `${key}:${value}`);
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespaceOf(labelSetOfOwn(at))};K8S_POD_NAME=own${at};K8S_POD_LABELS=${labels.join(",")}`;
    const conf = { ...world.conf(), type: "tortie", ipam: { type: "tortie-ipam" }, ...agent.netconf };
    const { status, text } = await callAgent(agent, "add", conf, { pod, containerId: `own${at}`, args });
    if (status !== 200) throw new Error(`ADD: ${text}`);
  }
}

/** Asks whether connections from pods elsewhere to those of this node would pass. @returns how long each answer took */
async function explanations(agent: Agent): Promise<readonly number[]> {
  const times: number[] = [];
  for (let at = 0; at < CHANGES; at++) {
    const to = `${namespaceOf(labelSetOfOwn(at))}/own${at}`;
    const begun = performance.now();
    const { status, text } = await agent.request("GET", `/policy/explain?from=${namespaceOf(at)}/p${at}&to=${to}&port=8000`);
    times.push(performance.now() - begun);
    if (status !== 200) throw new Error(`explain: ${text}`);
  }
  return times;
}

/** Prints the rows. */
export async function nodeOfLargeCluster(): Promise<void> {
  await using etcd = await startEtcd();
  await using world = await EtcdNode.create(etcd);
  const directory = join(world.node.dir, "policies");
  mkdirSync(directory);
  writePolicies(directory);
  const { endpoints } = openEtcdDatastore(decodeNetworkConfig({ name: "net1" }), { ETCD_ENDPOINTS: etcd.endpoints }, {});
  const left = Array.from({ length: PODS }, (_, index) => index);
  const make = async () => {
    for (let index = left.pop(); index !== undefined; index = left.pop()) await endpoints.create(remote(index), remote(index));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, make));
  const start = (policyMode: "auto" | "off") =>
    Agent.start(world.node, {
      args: ["--datastore-type", "etcdv3", "--policy-directory", directory, "--policy", policyMode, "--policy-wait-seconds", "120"],
      env: { ETCD_ENDPOINTS: world.endpoints },
    });
  {
    await using first = await start("auto");
    await attachAll(world, first);
    await first.stop();
  }
  const without: number[] = [];
  const withPolicy: number[] = [];
  const starts: number[] = [];
  const processor: number[] = [];
  for (let at = 0; at < STARTS; at++) {
    await using off = await start("off");
    without.push(await memoryAtRest(off));
    await off.stop();
    const begun = performance.now();
    await using on = await start("auto");
    await untilSo(() => isWhole(world.node));
    starts.push(performance.now() - begun);
    processor.push(processorTimeOf(on));
    withPolicy.push(await memoryAtRest(on));
    await on.stop();
  }
  await using agent = await start("auto");
  await untilSo(() => isWhole(world.node));
  await Bun.sleep(SETTLE_MS);
  using news = new TableNews(world.node);
  await Bun.sleep(1_000);
  const pods: number[] = [];
  for (let at = 0; at < CHANGES; at++) {
    // Is a peer of an endpoint's policy, and no longer afterwards: those of a label set that ends in 5 select no pod of this node.
    const index = 10 * at;
    const found = await endpoints.get(remote(index));
    if (found === undefined) throw new Error("the pod's endpoint is gone");
    pods.push(await news.after(() => endpoints.update(remote(index), remote(index, index + 5), found.revision)));
  }
  const policies: number[] = [];
  for (let at = 0; at < CHANGES; at++) {
    policies.push((await news.after(async () => write(directory, "all", everyPod(8200 + at)))) - FILE_SETTLED_MS);
  }
  const explained = await explanations(agent);
  await agent.stop();
  const widths = [66, 10, 10, 8];
  console.log(row([`one agent, ${PODS} pods, ${POLICIES} policies, ${ENDPOINTS} endpoints`, "least", "median", "bar"], widths));
  const of = (what: string, values: readonly number[], bar: string) =>
    console.log(row([what, Math.min(...values), median(values), bar], widths));
  of("start until the kernel holds all, ms", starts, "3000");
  of("processor time of that, ms", processor, "");
  of("memory without policy, MiB", without, "");
  of("memory with policy, MiB", withPolicy, "");
  console.log(row(["memory of policy, MiB", "", median(withPolicy) - median(without), "60"], widths));
  of("one pod's labels, from the answer to the write until in the kernel, ms", pods, "5");
  of(`a policy for ${ENDPOINTS} endpoints, from when its file counts until in the kernel, ms`, policies, "100");
  of("one explanation at the agent's socket, ms", explained, "50");
}
