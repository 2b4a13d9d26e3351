/** A container runtime without peace: its containers and their sandboxes, and the calls that it makes for them. */
import { addressesOf } from "../cni-result.ts";
import type { CniRun, Node, Pod } from "../node.ts";
import { leadTo } from "./paths.ts";
import { ProcessIds } from "./process-ids.ts";

/** Name of the network in every configuration. */
export const NETWORK = "net1";

/** Who serves a call: the agent, or the plugins alone. */
export type Mode = "require" | "off";

export interface Container {
  readonly id: string;
  readonly pod: Pod;
  /** Of its ADD. */
  readonly mode: Mode;
  /** Where it is, which may be another node with the same store. */
  readonly node: Node;
  addresses: readonly string[];
  isChangedInside: boolean;
  /** Its sandbox is gone, or its link was taken: the runtime has not sent its DEL yet. */
  isDead: boolean;
}

export interface StartOptions {
  readonly mode?: Mode;
  /** The sandbox; one of its own when absent. */
  readonly pod?: Pod | undefined;
  /** Something is in its way: the runtime undoes an ADD that failed, and nobody complains. */
  readonly mayFail?: boolean;
  /** One that was prepared before. */
  readonly id?: string;
  /** Default: the node of the agent. */
  readonly node?: Node;
}

export interface CallOptions {
  readonly pod?: Pod;
  /** CNI_NETNS where the sandbox's will not do. */
  readonly netns?: string;
  /** Default: the network and interface of every container. */
  readonly network?: string;
  readonly ifname?: string;
  readonly node?: Node;
}

export abstract class Runtime {
  readonly node: Node;
  readonly random: () => number;
  /** Containers whose addresses must be theirs. */
  readonly containers = new Set<Container>();
  /** Every sandbox that there is. */
  readonly sandboxes = new Set<Pod>();
  /** What no call may do: fail on a healthy node, or stand still. */
  readonly complaints: string[] = [];
  operations = 0;
  /** What calls were and have said, in the order of their ends. */
  protected readonly calls: string[] = [];
  #ids = 0;
  /** Sandboxes that are named by a process. */
  #processes: ProcessIds | undefined;
  /** What ends with the world. */
  protected readonly own = new AsyncDisposableStack();

  protected constructor(node: Node, random: () => number) {
    this.node = node;
    this.random = random;
  }

  /** The network configuration of a call on a node. */
  abstract conf(mode: Mode, node?: Node): Record<string, unknown>;

  /** CNI_ARGS of a container's calls. */
  protected argsOf(_id: string): string | undefined {
    return undefined;
  }

  /** Before the ADD of a container. */
  protected async announce(_id: string, _node: Node): Promise<void> {}

  /** After the DEL of a container. */
  async forget(_id: string): Promise<void> {}

  /** A whole number below `limit`. */
  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  oneOf<T>(...choices: readonly [T, ...T[]]): T {
    return choices[this.below(choices.length)] ?? choices[0];
  }

  async newSandbox(node = this.node): Promise<Pod> {
    return this.#known(await node.addPod());
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
  async prepare(node = this.node): Promise<string> {
    const id = this.newId();
    await this.announce(id, node);
    return id;
  }

  /** A new container. @returns `undefined` when its ADD failed, which the runtime undoes */
  async start({
    mode = "require",
    pod,
    mayFail = false,
    id: prepared,
    node = this.node,
  }: StartOptions = {}): Promise<Container | undefined> {
    this.operations++;
    const sandbox = pod ?? (await this.newSandbox(node));
    const id = prepared ?? (await this.prepare(node));
    const run = await this.call("ADD", id, mode, { pod: sandbox, node });
    const addresses = addressesOf(run.json);
    if (run.exit === 0 && addresses.length > 0) return this.believe({ id, pod: sandbox, mode, node, addresses });
    if (!mayFail) this.complain(`ADD of ${id}`, run);
    this.#leftUndone.push({ id, pod: sandbox, mode, node });
    return undefined;
  }

  /** What a runtime calls for a container. */
  async call(
    verb: "ADD" | "DEL" | "CHECK",
    id: string,
    mode: Mode,
    { node = this.node, network = NETWORK, ...where }: CallOptions,
  ): Promise<CniRun> {
    const args = this.argsOf(id);
    const begun = new Date().toISOString();
    const conf = { ...this.conf(mode, node), name: network };
    const run = await node.cni(verb, { containerId: id, conf, ...(args === undefined ? {} : { args }), ...where });
    const outcome = `${run.signal ?? run.exit} ${run.stdout.replaceAll(/\s+/g, " ")}`;
    const of = [id, network, where.ifname, where.netns].filter((part) => part !== undefined).join(" ");
    this.calls.push(`${verb} ${of} ${mode}, ${begun} to ${new Date().toISOString()}: ${outcome}\n${run.stderr}`);
    return run;
  }

  /** Takes note of an ADD that succeeded. */
  believe(added: Pick<Container, "id" | "pod" | "mode" | "node" | "addresses">): Container {
    const container = { ...added, isChangedInside: false, isDead: false };
    this.containers.add(container);
    return container;
  }

  /** ADDs and DELs that failed: a runtime sends their DEL once more, later. */
  readonly #leftUndone: (Pick<Container, "id" | "pod" | "mode" | "node"> & { readonly netns?: string | undefined })[] = [];

  /** The runtime's DEL, and after it the end of the sandbox. Default mode: that of the ADD. */
  async stop(container: Container, mode: Mode = container.mode, mayFail = false): Promise<void> {
    const isDone = await this.del(container, { mode, mayFail });
    if (isDone && !container.isDead) await this.removeSandbox(container.pod);
  }

  /** DEL alone: the sandbox stays. @returns whether it succeeded; when it may fail it is repeated later */
  async del(
    container: Container,
    { mode = container.mode, netns, mayFail = false }: { readonly mode?: Mode; readonly netns?: string; readonly mayFail?: boolean } = {},
  ): Promise<boolean> {
    this.operations++;
    const { id, pod, node } = container;
    const run = await this.call("DEL", id, mode, { node, ...(netns === undefined ? { pod } : { netns }) });
    this.containers.delete(container);
    if (run.exit === 0) await this.forget(id);
    else if (mayFail) this.#leftUndone.push({ id, pod, mode, node, netns });
    else this.complain(`DEL of ${id}`, run);
    return run.exit === 0;
  }

  /** GC whose list has these containers. What it lacks is gone for the runtime. @returns whether it succeeded */
  async collect(kept: readonly Container[], mode: Mode = "require", mayFail = false): Promise<boolean> {
    this.operations++;
    const valid = kept.map(({ id }) => ({ containerID: id, ifname: "eth0" }));
    const run = await this.node.cni("GC", { conf: { ...this.conf(mode), "cni.dev/valid-attachments": valid } });
    if (run.exit !== 0 && !mayFail) this.complain("GC", run);
    return run.exit === 0;
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
    return leadTo(this.node.netnsPath, pod.netnsPath);
  }

  /** The DELs that a runtime still owes. */
  protected async deleteLeft(): Promise<void> {
    for (const { id, pod, netns, mode, node } of this.#leftUndone.splice(0)) {
      const run = await this.call("DEL", id, mode, { node, ...(netns === undefined ? { pod } : { netns }) });
      if (run.exit !== 0) this.complain(`DEL of ${id}`, run);
      await this.forget(id);
      const isOver = this.sandboxes.has(pod) && ![...this.containers].some((one) => one.pod === pod);
      if (isOver) await this.removeSandbox(pod);
    }
  }

  /** A call that failed though nothing was in its way. */
  complain(what: string, { exit, signal, stdout }: CniRun): void {
    const outcome = signal === null ? `exit ${exit} ${stdout.replaceAll(/\s+/g, " ")}` : `ended by ${signal}`;
    this.complaints.push(`refused: ${what}: ${outcome}`);
  }
}
