/**
 * A node with a real agent that enforces the policies of a directory: no cluster is needed. Pods are attached by the agent or by the plugin,
 * and a prober in each of them sends and receives.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "./agent.ts";
import { callAgent } from "./agent-calls.ts";
import { addressesOf, hostEndOf } from "./cni-result.ts";
import { dualIpam, localConf } from "./conf.ts";
import { Node, type Pod } from "./node.ts";
import { Dialogue, type Place } from "./policy-node.ts";

const PYTHON = "/usr/bin/python3";

export interface AttachedPod extends Place {
  readonly name: string;
  readonly pod: Pod;
  readonly containerId: string;
  readonly args: string;
  readonly hostInterface: string;
}

export interface WantedPod {
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** The IPv4 address that it asks for. */
  readonly address?: string;
}

export class PolicyAgentNode implements AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly directory: string;
  readonly #stack = new AsyncDisposableStack();
  #count = 0;

  private constructor(node: Node, agent: Agent, directory: string) {
    this.node = node;
    this.agent = agent;
    this.directory = directory;
  }

  /** @param args of the agent besides; a later one of the same name wins */
  static async create(args: readonly string[] = []): Promise<PolicyAgentNode> {
    const node = await Node.create();
    const directory = join(node.dir, "policies");
    mkdirSync(directory);
    const agent = await Agent.start(node, { args: ["--policy-directory", directory, ...args] });
    const made = new PolicyAgentNode(node, agent, directory);
    made.#stack.use(node);
    made.#stack.use(agent);
    return made;
  }

  get conf(): Record<string, unknown> {
    return { ...localConf(this.node, { ipam: dualIpam("46") }), ...this.agent.netconf };
  }

  /** Starts another agent in the place of one that has ended. */
  startAgain(args: readonly string[]): Promise<Agent> {
    return Agent.start(this.node, { args: ["--policy-directory", this.directory, ...args] });
  }

  /** A sandbox with a prober in it, that nobody has attached. */
  async sandbox(name = `p${++this.#count}`): Promise<{ readonly pod: Pod; readonly prober: Dialogue }> {
    const pod = await this.node.addPod(name);
    return { pod, prober: this.#stack.use(new Dialogue(this.node.commandLine([PYTHON, "test/support/programs/prober.py"], {}, pod))) };
  }

  /** CNI_ARGS of a pod whose labels the runtime says. */
  args(name: string, { namespace = "shop", labels = {}, address }: WantedPod = {}): string {
    const text = Object.entries(labels).map(([key, value]) => `${key}:${value}`);
    return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_LABELS=${text.join(",")}${address === undefined ? "" : `;IP=${address}`}`;
  }

  /** Attaches a pod by the agent. */
  async attach(name: string, wanted: WantedPod = {}): Promise<AttachedPod> {
    // The kernel has no file for the longest names of pods.
    const { pod, prober } = await this.sandbox(name.slice(0, 60));
    const containerId = `cid-${name.slice(0, 60)}`;
    const args = this.args(name, wanted);
    const answer = await callAgent(this.agent, "add", this.conf, { pod, containerId, args });
    if (answer.status !== 200) throw new Error(`ADD of ${name}: ${answer.text}\n${this.agent.log}`);
    return { name, pod, prober, containerId, args, ...placeOf(JSON.parse(answer.text)) };
  }

  /** A pod that answers at these ports of TCP. */
  async serving(name: string, labels: WantedPod["labels"] = {}, ports: readonly number[] = [80]): Promise<AttachedPod> {
    const pod = await this.attach(name, { labels });
    for (const port of ports) await pod.prober.ask("serve", { protocol: "tcp", port });
    return pod;
  }

  /** Takes the pod apart, and ends its sandbox. */
  async detach({ pod, containerId, args }: AttachedPod, agent = this.agent): Promise<void> {
    const answer = await callAgent(agent, "del", this.conf, { pod, containerId, args });
    if (answer.status !== 200) throw new Error(`DEL: ${answer.text}`);
    await this.node.removePod(pod);
  }

  /** Puts a file of policies in its place, whole. */
  write(name: string, ...documents: readonly object[]): void {
    const path = join(this.directory, `${name}.yaml`);
    const text = documents.map((document) => `${JSON.stringify(document)}\n`).join("---\n");
    writeFileSync(`${this.node.dir}/draft`, text);
    renameSync(`${this.node.dir}/draft`, path);
  }

  remove(name: string): void {
    rmSync(join(this.directory, `${name}.yaml`));
  }

  /** Host ends that the table knows, sorted. */
  async known(): Promise<readonly string[]> {
    const { stdout } = await this.node.run(["/usr/sbin/nft", "list", "map", "inet", "tortie-policy", "from-endpoint"]);
    return [...stdout.matchAll(/"([a-z0-9]+)" : /g)].map(([, name = ""]) => name).sort();
  }

  /** The policy's table as `nft` prints it, without what changes by itself; empty where there is none. */
  table(): Promise<string> {
    return policyTable(this.node);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** A node's table of policy as `nft` prints it, without what changes by itself; empty where there is none. */
export async function policyTable(node: Node): Promise<string> {
  const { stdout } = await node.run(["/usr/sbin/nft", "list", "table", "inet", "tortie-policy"]);
  // An endpoint is an element of a set of limits for a minute after a packet of it was dropped.
  const withoutLimits = stdout.replaceAll(/(set \w+-log-limit \{[^{}]*?)\s*elements = \{[^{}]*\}/g, "$1");
  return withoutLimits.replaceAll(/\s+packets \d+ bytes \d+/g, "");
}

export function placeOf(result: unknown) {
  const addresses = addressesOf(result);
  const [four = "", six = ""] = [addresses.find((one) => !one.includes(":")), addresses.find((one) => one.includes(":"))];
  return { address: { 4: four, 6: six }, hostInterface: hostEndOf(result) } as const;
}

/** A NetworkPolicy of namespace shop. */
export function policy(name: string, spec: object, namespace = "shop"): object {
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace }, spec };
}

/** Bytes that have come to a pod in a stream that it has opened under this name. */
export function got({ prober }: AttachedPod, name: string): Promise<number> {
  return prober.ask<number>("got", { name });
}

/** Whether more of them come. */
export async function isGrowing(pod: AttachedPod, name: string): Promise<boolean> {
  const before = await got(pod, name);
  await Bun.sleep(300);
  return (await got(pod, name)) > before;
}

/** Repeats until the answer is as wanted, or the time is over. @returns the last answer */
export async function eventually<T>(wanted: T, ask: () => Promise<T>, limitMs = 10_000): Promise<T> {
  for (const end = performance.now() + limitMs; ; ) {
    const found = await ask();
    if (found === wanted || performance.now() > end) return found;
    await Bun.sleep(20);
  }
}
