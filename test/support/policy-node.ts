/**
 * A node with pods and a table of policy in its own process, and a machine outside. What happens is looked at with real packets, `nft` and
 * /proc: every namespace has a prober that sends and receives.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { NO_NODE_STATE } from "../../dataplane/dataplane.ts";
import { apply, applyNode } from "./dataplane-probe.ts";
import { desiredFor } from "./desired-state.ts";
import { type JsonRecord, Node, type Pod } from "./node.ts";
import { addOutside } from "./outside.ts";
import type { EndpointText, PolicyText } from "./packet-policy-text.ts";

const PYTHON = "/usr/bin/python3";
const OUTSIDE = { 4: "172.20.1.2", 6: "fd00:20::2" } as const;
export const HOST = { 4: "172.20.1.1", 6: "fd00:20::1" } as const;
export type Family = 4 | 6;
export const FAMILIES: readonly Family[] = [4, 6];

/** A program that answers one line for each line. */
export class Dialogue implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  #asked = 0;

  constructor([file = "", ...args]: readonly string[]) {
    this.#child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
    const { stdout } = this.#child;
    if (stdout === null) throw new Error("no output");
    createInterface({ input: stdout }).on("line", (line) => {
      const { id, value, error } = JSON.parse(line);
      if (error === undefined) this.#waiting.get(id)?.resolve(value);
      else this.#waiting.get(id)?.reject(new Error(error));
      this.#waiting.delete(id);
    });
    this.#child.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(new Error("the program has ended"));
    });
  }

  ask<T = string>(action: string, parameters: object = {}): Promise<T> {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      // What the programs answer is a test's own protocol.
      this.#waiting.set(id, { resolve: (value) => resolve(value as T), reject });
      this.#child.stdin?.write(`${JSON.stringify({ ...parameters, id, do: action })}\n`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** A pod, or the machine outside, or the node itself. */
export interface Place {
  readonly address: Readonly<Record<Family, string>>;
  readonly prober: Dialogue;
  readonly pod: Pod | undefined;
}

export interface PolicyPod extends Place {
  readonly hostInterface: string;
  readonly pod: Pod;
}

type Two = readonly [PolicyPod, PolicyPod];
type PodsOf<Count extends 2 | 3> = Count extends 2 ? Two : readonly [...Two, PolicyPod];

export class PolicyNode implements AsyncDisposable {
  readonly node: Node;
  readonly host: Place;
  readonly outside: Place;
  #table: Dialogue;
  readonly #stack = new AsyncDisposableStack();
  #pods = 0;

  private constructor(node: Node, outside: Pod) {
    this.node = node;
    this.#stack.use(node);
    this.host = { address: HOST, prober: this.#prober(), pod: undefined };
    this.outside = { address: OUTSIDE, prober: this.#prober(outside), pod: outside };
    this.#table = this.#startTable();
  }

  /** With so many pods, named calia, calib and so on, each with an address of both families. */
  static async create<Count extends 2 | 3>(count: Count): Promise<PolicyNode & { readonly pods: PodsOf<Count> }> {
    const node = await Node.create();
    const both = (address: Place["address"]) => [`${address[4]}/24`, `${address[6]}/64`];
    const outside = await addOutside(node, { link: "eth0", host: both(HOST), outside: both(OUTSIDE) });
    // Without a route to 169.254.1.1 the node would not answer for it.
    await node.ip("route", "add", "default", "via", OUTSIDE[4]);
    await node.ip("-6", "route", "add", "default", "via", OUTSIDE[6]);
    await node.podIp(outside, "route", "add", "default", "via", HOST[4]);
    await node.podIp(outside, "-6", "route", "add", "default", "via", HOST[6]);
    const report = await applyNode(node, { ...NO_NODE_STATE, forwardedFamilies: [4, 6] });
    if (report.error !== undefined) throw new Error(report.error.message);
    const made = new PolicyNode(node, outside);
    const pods = [await made.attach(), await made.attach(), ...(count === 3 ? [await made.attach()] : [])];
    // As many as were asked for.
    return Object.assign(made, { pods: pods as unknown as PodsOf<Count> });
  }

  /** Attaches another pod as an ADD does. */
  async attach(): Promise<PolicyPod> {
    const number = ++this.#pods;
    const pod = await this.node.addPod(`p${number}`);
    const hostInterface = `cali${String.fromCharCode(96 + number)}`;
    const address = { 4: `10.60.0.${number}`, 6: `fd00:60::${number}` };
    const addresses = [`${address[4]}/32`, `${address[6]}/128`];
    const applied = await apply(this.node, desiredFor(pod, { host: hostInterface, addresses, owner: { containerId: `cid${number}` } }));
    if (applied.error !== undefined) throw new Error(applied.error.message);
    return { hostInterface, address, pod, prober: this.#prober(pod) };
  }

  /** Asks the process that holds the table. */
  ask<T = null>(action: string, parameters: object = {}): Promise<T> {
    return this.#table.ask<T>(action, parameters);
  }

  replace(policy: PolicyText): Promise<string[]> {
    return this.ask("replace", { policy });
  }

  apply(policy: PolicyText): Promise<null> {
    return this.ask("apply", { policy });
  }

  /** Ends the process that holds the table by SIGKILL, and starts another one that knows nothing. */
  async restart(): Promise<void> {
    await this.#table[Symbol.asyncDispose]();
    this.#table = this.#startTable();
  }

  /** Runs `nft` on the node. */
  async nft(...args: string[]): Promise<string> {
    const { exit, stdout, stderr } = await this.node.run(["/usr/sbin/nft", ...args]);
    if (exit !== 0) throw new Error(`nft ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** Objects of one kind in the table, as `nft -j` lists them. */
  async objects(kind: string): Promise<JsonRecord[]> {
    const { nftables } = JSON.parse(await this.nft("-j", "list", "table", "inet", "tortie-policy"));
    return nftables.flatMap((object: JsonRecord) => (object[kind] === undefined ? [] : [object[kind]]));
  }

  /** Dropped packets by "direction reason", without those of which there are none, from `nft`. */
  async dropped(): Promise<Record<string, number>> {
    const counters = (await this.objects("counter")).filter(({ name }) => !String(name).endsWith("-judged"));
    return Object.fromEntries(counters.flatMap(({ name, packets }) => (packets === 0 ? [] : [[String(name), Number(packets)]])));
  }

  /** Packets that began connections and were judged, by direction, as the product reads them. */
  judged(): Promise<unknown> {
    return this.ask<unknown>("judged");
  }

  /** Lines of /proc/net/nf_conntrack that have this text. */
  async connections(text: string): Promise<string[]> {
    const { stdout } = await this.node.run(["/bin/cat", "/proc/net/nf_conntrack"]);
    return stdout.split("\n").filter((line) => line.includes(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#table[Symbol.asyncDispose]();
    await this.#stack.disposeAsync();
  }

  #prober(pod?: Pod): Dialogue {
    return this.#stack.use(new Dialogue(this.node.commandLine([PYTHON, "test/support/programs/prober.py"], {}, pod)));
  }

  #startTable(): Dialogue {
    return new Dialogue(this.node.commandLine([process.execPath, "test/support/programs/policy-table.ts"]));
  }
}

/** Addresses of pods with their classes, for a policy. */
export function classes(...pairs: readonly (readonly [Place, string])[]): Record<string, string> {
  return Object.fromEntries(pairs.flatMap(([{ address }, name]) => FAMILIES.map((family) => [address[family], name])));
}

/** The policies of endpoints, by the names of their host ends. */
export function endpoints(...pairs: readonly (readonly [PolicyPod, Omit<EndpointText, "addresses">])[]): Record<string, EndpointText> {
  return Object.fromEntries(
    pairs.map(([{ hostInterface, address }, policy]) => [hostInterface, { addresses: Object.values(address), ...policy }]),
  );
}

/** Sends one request and waits for its answer: "ok" when it came. */
export function reach(from: Place, to: Place, protocol: "tcp" | "udp", port: number, family: Family = 4): Promise<string> {
  return from.prober.ask(protocol, { to: to.address[family], port });
}

/** How long a packet that was sent by hand may take. */
const ARRIVAL_LIMIT_MS = 300;

/** Sends an IP packet as it is. @returns whether what it has behind its IP header arrives */
export async function arrives(from: Place, to: Place, packet: Buffer, address: string): Promise<boolean> {
  const behindHeader = packet.subarray((packet[0] ?? 0) >> 4 === 4 ? 20 : 40).toString("hex");
  await to.prober.ask("taken");
  await from.prober.ask("raw", { packet: packet.toString("hex"), to: address });
  for (const end = performance.now() + ARRIVAL_LIMIT_MS; ; await Bun.sleep(10)) {
    const isLast = performance.now() > end;
    const taken = await to.prober.ask<string[]>("taken");
    if (taken.some((one) => one.includes(behindHeader))) return true;
    if (isLast) return false;
  }
}

/** Makes a machine beyond the link eth0 of a node, both ends in one subnet of IPv4. */
export async function machineBeyond(node: Node, host: string, outside: string): Promise<Place & AsyncDisposable> {
  const pod = await addOutside(node, { link: "eth0", host: [`${host}/24`], outside: [`${outside}/24`] });
  const prober = new Dialogue(node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, pod));
  return { pod, prober, address: { 4: outside, 6: "" }, [Symbol.asyncDispose]: () => prober[Symbol.asyncDispose]() };
}
