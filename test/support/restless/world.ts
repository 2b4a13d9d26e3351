/**
 * A node that is never left in peace: a runtime's containers and their sandboxes, an agent, a store, and what is believed of all of it.
 * Beliefs come from what calls have answered; whether they are true is the judge's to say (test/support/judge). Where the store is, and
 * what else belongs to a container, is for each world to say.
 */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Agent } from "../agent.ts";
import { addressesOf } from "../cni-result.ts";
import { judge } from "../judge/judge.ts";
import type { SeenStore, Wanted } from "../judge/world.ts";
import type { CniRun, Node, Pod } from "../node.ts";
import { ProcessIds } from "./process-ids.ts";

/** Name of the network in every configuration. */
export const NETWORK = "net1";
/** Nothing takes so long on a node whose faults are over; a call that does stands still. */
export const CALL_SECONDS = 20;
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

export interface StartOptions {
  /** How the plugin is to use the agent. */
  readonly mode?: Mode;
  /** The sandbox; one of its own when absent. */
  readonly pod?: Pod | undefined;
  /** Something is in its way: the runtime undoes an ADD that failed, and nobody complains. */
  readonly mayFail?: boolean;
  /** One that was prepared before. */
  readonly id?: string;
}

export abstract class RestlessWorld implements AsyncDisposable {
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
  /** What calls were and have said, in the order of their ends. */
  readonly #trace: string[] = [];
  #ids = 0;

  /** Sandboxes that are named by a process. */
  #processes: ProcessIds | undefined;
  /** What ends with the world. */
  protected readonly own = new AsyncDisposableStack();

  protected constructor(node: Node, agent: Agent, random: () => number) {
    this.node = node;
    this.agent = agent;
    this.random = random;
  }

  /** The network configuration of a call. */
  abstract conf(mode: Mode): Record<string, unknown>;

  /** An ADD makes the host forward. */
  protected readonly isForwarding: boolean = true;

  /** What the judge reads. */
  protected abstract lookAtStore(): Promise<SeenStore>;

  /** CNI_ARGS of a container's calls. */
  protected argsOf(_id: string): string | undefined {
    return undefined;
  }

  /** Before the ADD of a container. */
  protected async announce(_id: string): Promise<void> {}

  /** After the DEL of a container. */
  protected async forget(_id: string): Promise<void> {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]();
    await this.own[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  oneOf<T>(...choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }

  async newSandbox(): Promise<Pod> {
    return this.#known(await this.node.addPod());
  }

  /** A sandbox that only a process keeps, named /proc/PID/ns/net: it ends with that process, and the number may come again. */
  async newProcess(): Promise<Pod> {
    this.#processes ??= this.own.use(await ProcessIds.create(this.node.dir));
    return this.#known(await this.#processes.start());
  }

  #known(pod: Pod): Pod {
    this.sandboxes.add(pod);
    return pod;
  }

  newId(): string {
    return `c${++this.#ids}`;
  }

  /** Everything that must be there before the ADD of a container. @returns its id */
  async prepare(): Promise<string> {
    const id = this.newId();
    await this.announce(id);
    return id;
  }

  /** A new container. @returns `undefined` when its ADD failed, which the runtime undoes */
  async start({ mode = "auto", pod, mayFail = false, id: prepared }: StartOptions = {}): Promise<Container | undefined> {
    this.operations++;
    const sandbox = pod ?? (await this.newSandbox());
    const id = prepared ?? (await this.prepare());
    const run = await this.call("ADD", id, mode, { pod: sandbox });
    const addresses = addressesOf(run.json);
    if (run.exit === 0 && addresses.length > 0) return this.believe(id, sandbox, addresses);
    if (!mayFail) this.complain(`ADD of ${id}`, run);
    this.#leftUndone.push({ id, pod: sandbox });
    return undefined;
  }

  /** What a runtime calls for a container. */
  async call(verb: "ADD" | "DEL", id: string, mode: Mode, where: { readonly pod?: Pod; readonly netns?: string }): Promise<CniRun> {
    const args = this.argsOf(id);
    const begun = new Date().toISOString();
    const run = await this.node.cni(verb, { containerId: id, conf: this.conf(mode), ...(args === undefined ? {} : { args }), ...where });
    const outcome = `${run.signal ?? run.exit} ${run.stdout.replaceAll(/\s+/g, " ")}`;
    this.#trace.push(`${verb} ${id} ${mode}, ${begun} to ${new Date().toISOString()}: ${outcome}\n${run.stderr}`);
    return run;
  }

  /** The calls, and everything that the agent has written, for whoever looks into a violation. */
  get trace(): string {
    return `${this.#trace.join("\n")}\n${this.agent.log}`;
  }

  /** Takes note of an ADD that succeeded. */
  believe(id: string, pod: Pod, addresses: readonly string[]): Container {
    const container = { id, pod, addresses, isChangedInside: false, isDead: false };
    this.containers.add(container);
    return container;
  }

  /** ADDs and DELs that failed: a runtime sends their DEL once more, later. */
  readonly #leftUndone: { readonly id: string; readonly pod: Pod; readonly netns?: string | undefined }[] = [];

  /** The runtime's DEL, and after it the end of the sandbox. */
  async stop(container: Container, mode: Mode = "auto", mayFail = false): Promise<void> {
    const isDone = await this.del(container, { mode, mayFail });
    if (isDone && !container.isDead) await this.removeSandbox(container.pod);
  }

  /** DEL alone: the sandbox stays. @returns whether it succeeded; when it may fail it is repeated later */
  async del(
    container: Container,
    { mode = "auto", netns, mayFail = false }: { readonly mode?: Mode; readonly netns?: string; readonly mayFail?: boolean } = {},
  ): Promise<boolean> {
    this.operations++;
    const { id, pod } = container;
    const run = await this.call("DEL", id, mode, netns === undefined ? { pod } : { netns });
    this.containers.delete(container);
    if (run.exit === 0) await this.forget(id);
    else if (mayFail) this.#leftUndone.push({ id, pod, netns });
    else this.complain(`DEL of ${id}`, run);
    return run.exit === 0;
  }

  /** GC whose list has these containers. What it lacks is gone for the runtime. */
  async collect(kept: readonly Container[], mode: Mode = "auto", mayFail = false): Promise<void> {
    this.operations++;
    const valid = kept.map(({ id }) => ({ containerID: id, ifname: "eth0" }));
    const run = await this.node.cni("GC", { conf: { ...this.conf(mode), "cni.dev/valid-attachments": valid } });
    if (run.exit !== 0 && !mayFail) this.complain("GC", run);
  }

  async removeSandbox(pod: Pod): Promise<void> {
    this.sandboxes.delete(pod);
    if (this.#processes?.has(pod)) await this.#processes.end(pod);
    else await this.node.removePod(pod);
  }

  /** Its processes die, and its namespace with them; nobody tells the plugin. What is left is believed to be held still. */
  async kill(container: Container): Promise<void> {
    this.operations++;
    await this.removeSandbox(container.pod);
    container.isDead = true;
  }

  /** A new sandbox at the path of one that is gone. */
  async reusePath(pod: Pod): Promise<Pod> {
    this.operations++;
    if (this.#processes?.has(pod)) return this.#known(await this.#processes.start(pod));
    return this.#known(await this.node.addPod(pod.name.slice(this.node.name.length + 1)));
  }

  /** The path of a sandbox that is gone leads to the host's own namespace, as a process id does that a host process has got. */
  async leadToHost(pod: Pod): Promise<() => unknown> {
    this.operations++;
    const processes = this.#processes;
    if (processes?.has(pod)) {
      await processes.start(pod, this.node.netnsPath);
      return () => processes.end(pod);
    }
    const { netnsPath } = pod;
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

  async killAgent(): Promise<void> {
    this.operations++;
    await this.agent.kill();
  }

  async restartAgent(until?: "local"): Promise<void> {
    this.operations++;
    await this.agent.restart(until);
  }

  /** Everything that is under way comes to its end; then the judge looks until it finds nothing, or the time for it is over. */
  async quiet(): Promise<readonly string[]> {
    if (!this.agent.isRunning) await this.restartAgent();
    for (const { id, pod, netns } of this.#leftUndone.splice(0)) {
      const run = await this.call("DEL", id, "auto", netns === undefined ? { pod } : { netns });
      if (run.exit !== 0) this.complain(`DEL of ${id}`, run);
      await this.forget(id);
      const isOver = this.sandboxes.has(pod) && ![...this.containers].some((one) => one.pod === pod);
      if (isOver) await this.removeSandbox(pod);
    }
    await this.agent.until("its queue is empty", () => this.agent.queue.length === 0);
    await this.agent.looks("drift", LOOKS);
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

  async #verdict(): Promise<readonly string[]> {
    const wanted: readonly Wanted[] = [...this.containers].map(({ id, pod, addresses, isChangedInside, isDead }) => ({
      network: NETWORK,
      containerId: id,
      ifname: "eth0",
      // The path of a dead one's sandbox may be another's since.
      sandbox: isDead && !this.sandboxes.has(pod) ? `${pod.name} (gone)` : pod.name,
      addresses,
      isChangedInside,
      mayLackLink: isDead,
    }));
    const tables = new Set(["inet tortie"]);
    const allowed = { links: this.ownLinks, addresses: this.ownAddresses, routes: new Set<string>(), tables };
    const wrong = await judge(
      this.node,
      [...this.sandboxes],
      { wanted, allowed, isForwarding: this.isForwarding },
      await this.lookAtStore(),
    );
    return wrong.map(({ rule, what }) => `${rule}: ${what}`);
  }
}
