/**
 * A node that is never left in peace: a runtime's containers and their sandboxes, an agent, a store, and what is believed of all of it.
 * Beliefs come from what calls have answered; whether they are true is the judge's to say (test/support/judge).
 */
import { spawn, spawnSync } from "node:child_process";
import { closeSync, openSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { callAgent, lookAt } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { judge } from "../../support/judge/judge.ts";
import type { Wanted } from "../../support/judge/world.ts";
import { type CniRun, Node, type Pod } from "../../support/node.ts";

const NETWORK = "net1";
/** Nothing takes so long on a node whose faults are over; a call that does stands still. */
const CALL_SECONDS = 20;
const SETTLE_MS = 15_000;
const LOOK_MS = 250;
/** So many looks for drift are had before the judge is asked. */
const LOOKS = 2;

export type Mode = "auto" | "off";

export interface Container {
  readonly id: string;
  readonly pod: Pod;
  addresses: readonly string[];
  isChangedInside: boolean;
  /** Its sandbox is gone, or its link was taken: the runtime has not sent its DEL yet. */
  isDead: boolean;
}

export class World implements AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly random: () => number;
  /** Containers whose addresses must be theirs. */
  readonly containers = new Set<Container>();
  /** Every sandbox that there is. */
  readonly sandboxes = new Set<Pod>();
  /** `sandbox link`, and addresses, that the test has made itself. */
  readonly ownLinks = new Set<string>();
  readonly ownAddresses = new Set<string>();
  /** What no call may do: fail on a healthy node, or stand still. */
  readonly complaints: string[] = [];
  operations = 0;
  #ids = 0;

  private constructor(node: Node, agent: Agent, random: () => number) {
    this.node = node;
    this.agent = agent;
    this.random = random;
  }

  static async create(random: () => number): Promise<World> {
    await using made = new AsyncDisposableStack();
    const node = made.use(await Node.create());
    // What takes a minute on a node of people is looked at each second here.
    const agent = made.use(await Agent.start(node, { args: ["--max-controller-interval", "1"] }));
    const world = new World(node, agent, random);
    await world.start();
    made.move();
    return world;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  oneOf<T>(...choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }

  conf(mode: Mode): Record<string, unknown> {
    return {
      ...localConf(this.node, { cniVersion: "1.1.0", name: NETWORK, ipam: dualIpam("46") }),
      ...this.agent.netconf,
      agent: mode,
      agent_wait_seconds: 1,
      agent_timeout_seconds: CALL_SECONDS,
    };
  }

  async newSandbox(): Promise<Pod> {
    const pod = await this.node.addPod();
    this.sandboxes.add(pod);
    return pod;
  }

  newId(): string {
    return `c${++this.#ids}`;
  }

  /** A new container in a sandbox of its own, or in a given one. @returns `undefined` when its ADD failed, which the runtime undoes */
  async start(mode: Mode = "auto", pod?: Pod, mayFail = false): Promise<Container | undefined> {
    this.operations++;
    const sandbox = pod ?? (await this.newSandbox());
    const id = this.newId();
    const run = await this.node.cni("ADD", { containerId: id, pod: sandbox, conf: this.conf(mode) });
    const addresses = addressesOf(run.json);
    if (run.exit === 0 && addresses.length > 0) return this.believe(id, sandbox, addresses);
    if (!mayFail) this.complain(`ADD of ${id}`, run);
    this.#leftUndone.push({ id, pod: sandbox });
    return undefined;
  }

  /** Takes note of an ADD that succeeded. */
  believe(id: string, pod: Pod, addresses: readonly string[]): Container {
    const container = { id, pod, addresses, isChangedInside: false, isDead: false };
    this.containers.add(container);
    return container;
  }

  /** ADDs that failed: a runtime sends their DEL once, later. */
  readonly #leftUndone: { readonly id: string; readonly pod: Pod }[] = [];

  /** The runtime's DEL, and after it the end of the sandbox. */
  async stop(container: Container, mode: Mode = "auto", netns?: string): Promise<void> {
    await this.del(container, mode, netns);
    if (!container.isDead) await this.removeSandbox(container.pod);
  }

  /** DEL alone: the sandbox stays. It may never fail. */
  async del(container: Container, mode: Mode = "auto", netns?: string): Promise<void> {
    this.operations++;
    const where = netns === undefined ? { pod: container.pod } : { netns };
    const run = await this.node.cni("DEL", { containerId: container.id, conf: this.conf(mode), ...where });
    if (run.exit !== 0) this.complain(`DEL of ${container.id}`, run);
    this.containers.delete(container);
  }

  /** GC whose list has these containers. What it lacks is gone for the runtime. */
  async collect(kept: readonly Container[], mode: Mode = "auto", mayFail = false): Promise<void> {
    this.operations++;
    const valid = kept.map(({ id }) => ({ containerID: id, ifname: "eth0" }));
    const run = await this.node.cni("GC", { conf: { ...this.conf(mode), "cni.dev/valid-attachments": valid } });
    if (run.exit !== 0 && !mayFail) this.complain("GC", run);
  }

  /** A container whose sandbox the agent sees at no path: its caller's descriptor leads there. */
  async startByDescriptor(): Promise<Container | undefined> {
    this.operations++;
    const pod = await this.newSandbox();
    const id = this.newId();
    const fd = openSync(pod.netnsPath, "r");
    try {
      const netns = { ...lookAt(pod), path: `/run/netns/of-another-mount-namespace-${id}`, fd };
      const answer = await callAgent(this.agent, "add", this.conf("auto"), { containerId: id, netns });
      if (answer.status === 200) return this.believe(id, pod, addressesOf(answer.json));
      this.complaints.push(`refused: ADD of ${id} by descriptor: ${answer.status} ${answer.text}`);
      return undefined;
    } finally {
      closeSync(fd);
    }
  }

  async removeSandbox(pod: Pod): Promise<void> {
    this.sandboxes.delete(pod);
    await this.node.removePod(pod);
  }

  /** Its processes die, and its namespace with them; nobody tells the plugin. What is left is believed to be held still. */
  async kill(container: Container): Promise<void> {
    this.operations++;
    await this.removeSandbox(container.pod);
    container.isDead = true;
  }

  /** A new sandbox at the path of one that is gone. */
  async reusePath({ name }: Pod): Promise<Pod> {
    this.operations++;
    const pod = await this.node.addPod(name.slice(this.node.name.length + 1));
    this.sandboxes.add(pod);
    return pod;
  }

  /** The path of a sandbox that is gone leads to the host's own namespace, as a process id does that a host process has got. */
  leadToHost({ netnsPath }: Pod): () => void {
    this.operations++;
    const must = (program: string, ...args: string[]) => {
      const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
      if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
    };
    must("touch", netnsPath);
    must("mount", "--bind", this.node.netnsPath, netnsPath);
    return () => {
      must("umount", netnsPath);
      must("rm", netnsPath);
    };
  }

  /** The lock of the node's addresses is held by somebody else: whoever wants one waits. */
  pauseAddresses(seconds: number): Promise<void> {
    this.operations++;
    const child = spawn("/usr/bin/flock", [join(this.node.dir, "ipam.lock"), "/bin/sleep", String(seconds)], { stdio: "ignore" });
    return new Promise((done) => child.once("close", () => done()));
  }

  /** Each file of the agent is older or younger by this: its node's clock was set. */
  setClock(difference: string): void {
    this.operations++;
    const now = new Date(Date.now() + (difference.startsWith("-") ? -1 : 1) * 3_600_000);
    spawnSync("find", [this.agent.runDir, "-type", "f", "-exec", "touch", "-d", now.toISOString(), "{}", "+"]);
  }

  async killAgent(): Promise<void> {
    this.operations++;
    await this.agent.kill();
  }

  async restartAgent(): Promise<void> {
    this.operations++;
    await this.agent.restart();
  }

  /** Everything that is under way comes to its end; then the judge looks until it finds nothing, or the time for it is over. */
  async quiet(): Promise<readonly string[]> {
    if (!this.agent.isRunning) await this.restartAgent();
    for (const { id, pod } of this.#leftUndone.splice(0)) {
      const run = await this.node.cni("DEL", { containerId: id, conf: this.conf("auto"), pod });
      if (run.exit !== 0) this.complain(`DEL of ${id}`, run);
      if (![...this.containers].some((one) => one.pod === pod)) await this.removeSandbox(pod);
    }
    await this.agent.until("its queue is empty", () => this.#queued() === 0);
    await this.#looks();
    for (const end = performance.now() + SETTLE_MS; ; await Bun.sleep(LOOK_MS)) {
      const wrong = await this.#verdict();
      if (wrong.length === 0 || performance.now() > end) return [...this.complaints.splice(0), ...wrong];
    }
  }

  /** A call that failed though nothing was in its way. */
  complain(what: string, { exit, signal, stdout }: CniRun): void {
    const outcome = signal === null ? `exit ${exit} ${stdout.replaceAll(/\s+/g, " ")}` : `ended by ${signal}`;
    this.complaints.push(`refused: ${what}: ${outcome}`);
  }

  #queued(): number {
    return readdirSync(join(this.agent.runDir, "deletequeue"), { withFileTypes: true }).filter(({ name }) => name.endsWith(".json")).length;
  }

  async #looks(): Promise<void> {
    const runs = async () => {
      const { json } = await this.agent.request("GET", "/controllers");
      const all: unknown = json;
      const drift = Array.isArray(all) ? all.find(({ name }) => name === "drift") : undefined;
      return Number(drift?.status["success-count"] ?? 0) + Number(drift?.status["failure-count"] ?? 0);
    };
    const before = await runs();
    await this.agent.until("it has looked for drift", async () => (await runs()) >= before + LOOKS);
  }

  async #verdict(): Promise<readonly string[]> {
    const wanted: readonly Wanted[] = [...this.containers].map(({ id, pod, addresses, isChangedInside, isDead }) => ({
      network: NETWORK,
      containerId: id,
      ifname: "eth0",
      // The path of a dead one's sandbox may be another's by now.
      sandbox: isDead && !this.sandboxes.has(pod) ? `${pod.name} (gone)` : pod.name,
      addresses,
      isChangedInside,
      mayLackLink: isDead,
    }));
    const tables = new Set(["inet tortie"]);
    const allowed = { links: this.ownLinks, addresses: this.ownAddresses, routes: new Set<string>(), tables };
    const wrong = await judge(this.node, [...this.sandboxes], { wanted, allowed, isForwarding: true });
    return wrong.map(({ rule, what }) => `${rule}: ${what}`);
  }
}

function addressesOf(result: unknown): string[] {
  if (typeof result !== "object" || result === null || !("ips" in result) || !Array.isArray(result.ips)) return [];
  return result.ips.map(({ address }) => String(address).split("/")[0] ?? "");
}
