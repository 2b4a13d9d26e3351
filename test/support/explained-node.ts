/** A pretend machine whose network configuration stands where runtimes look for it, and the commands that explain and repair what it has. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Explanation } from "../../doctor/explain/explanation.ts";
import type { Agent } from "./agent.ts";
import { addressesOf, hostEndOf } from "./cni-result.ts";
import { localConf, podArgs } from "./conf.ts";
import { BIN_DIR, type CniRun, Node, type Pod, type RunResult } from "./node.ts";

export interface Attached {
  readonly pod: Pod;
  readonly containerId: string;
  readonly args: string;
  readonly addresses: readonly string[];
  readonly hostInterface: string;
  readonly run: CniRun;
}

export class ExplainedNode implements AsyncDisposable {
  readonly node: Node;
  readonly netDir: string;
  conf: Readonly<Record<string, unknown>>;
  agent: Agent | undefined;

  private constructor(node: Node) {
    this.node = node;
    this.netDir = join(node.dir, "net.d");
    this.conf = localConf(node);
    mkdirSync(this.netDir, { recursive: true });
  }

  /** @param change members of the main plugin's configuration */
  static async create(change: Readonly<Record<string, unknown>> = {}): Promise<ExplainedNode> {
    const made = new ExplainedNode(await Node.create());
    made.configure(change);
    return made;
  }

  /** Writes the list that a runtime would read. */
  configure(change: Readonly<Record<string, unknown>>): void {
    this.conf = { ...this.conf, ...change };
    const { cniVersion, name, ...plugin } = this.conf;
    this.writeList("10-tortie.conflist", JSON.stringify({ cniVersion, name, plugins: [plugin] }, undefined, 2));
  }

  writeList(name: string, text: string): void {
    writeFileSync(join(this.netDir, name), text);
  }

  /** Calls ADD as a runtime does. @param ip the address that it asks for */
  async add(name: string, containerId: string, { conf = this.conf, isCached = true, ip = "" } = {}): Promise<Attached> {
    const pod = await this.node.addPod(name);
    const args = `${podArgs(name, "default", containerId)}${ip === "" ? "" : `;IP=${ip}`}`;
    const run = await this.node.cni("ADD", { pod, conf: { ...conf, ...this.agent?.netconf }, containerId, args });
    if (run.exit === 0 && isCached) this.#cache(containerId, pod, args, run.json);
    return { pod, containerId, args, addresses: addressesOf(run.json), hostInterface: hostEndOf(run.json), run };
  }

  /** Keeps the result as libcni does. */
  #cache(containerId: string, pod: Pod, args: string, result: unknown): void {
    const folder = join(this.node.dir, "cni", "results");
    mkdirSync(folder, { recursive: true });
    const cniArgs = args.split(";").map((pair) => pair.split("="));
    const entry = {
      kind: "cniCacheV1",
      containerId,
      config: "",
      ifName: "eth0",
      networkName: "net1",
      netns: pod.netnsPath,
      cniArgs,
      result,
    };
    writeFileSync(join(folder, `net1-${containerId}-eth0`), JSON.stringify(entry));
  }

  async del({ pod, containerId, args }: Attached): Promise<CniRun> {
    return this.node.cni("DEL", { pod, conf: { ...this.conf, ...this.agent?.netconf }, containerId, args });
  }

  async tortiectl(...argv: string[]): Promise<RunResult> {
    return this.node.run([join(BIN_DIR, "tortiectl"), ...argv], {
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", CNI_PATH: `${BIN_DIR}:/usr/lib/cni` },
    });
  }

  get #here(): readonly string[] {
    const socket = this.agent?.socket ?? join(this.node.dir, "run", "tortie.sock");
    return ["--socket", socket, "--net-dir", this.netDir, "--cache-dir", join(this.node.dir, "cni")];
  }

  /** Explains as JSON. @throws Error when that fails */
  async explain(...subject: string[]): Promise<Explanation> {
    const { stdout, stderr } = await this.here("explain", ...subject, "--json");
    try {
      return JSON.parse(stdout);
    } catch {
      throw new Error(`explain ${subject.join(" ")}: ${stdout}${stderr}`);
    }
  }

  /** Runs `tortiectl explain` or `repair` about this machine. */
  async here(...argv: string[]): Promise<RunResult> {
    return this.tortiectl(...argv, ...this.#here);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent?.[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }
}

/** What an explanation says is wrong: the sentences of each that failed or warns, with their next steps. */
export function wrongIn({ results }: Explanation): readonly string[] {
  return results
    .filter(({ status }) => status === "failed" || status === "warning")
    .map(({ object, message, next }) => `${object}: ${message} -> ${next}`);
}
