/** A node on which pods are attached before there is an agent: by plugins, by Calico's, or by an agent of another boot. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "./agent.ts";
import { dualIpam, localConf } from "./conf.ts";
import { type CniRun, Node, type Pod } from "./node.ts";
import { placeOf } from "./policy-agent.ts";
import { Dialogue, type Place } from "./policy-node.ts";

const PYTHON = "/usr/bin/python3";

export interface EarlyPod extends Place {
  readonly pod: Pod;
  readonly containerId: string;
  readonly args: string;
  readonly hostInterface: string;
  /** What ADD printed. */
  readonly result: Record<string, unknown>;
}

export class LateAgentNode implements AsyncDisposable {
  readonly node: Node;
  readonly policies: string;
  readonly lists: string;
  readonly #stack = new AsyncDisposableStack();

  private constructor(node: Node) {
    this.node = node;
    [this.policies, this.lists] = [join(node.dir, "policies"), join(node.dir, "lists")];
    for (const directory of [this.policies, this.lists, join(node.dir, "cache"), join(node.dir, "cache/results")]) mkdirSync(directory);
  }

  static async create(): Promise<LateAgentNode> {
    const node = await Node.create();
    const made = new LateAgentNode(node);
    made.#stack.use(node);
    return made;
  }

  get runDir(): string {
    return join(this.node.dir, "run");
  }

  conf(mode: "require" | "off"): Record<string, unknown> {
    return {
      ...localConf(this.node, { ipam: dualIpam("46") }),
      ...(mode === "require" ? { agent: mode } : {}),
      agent_socket: join(this.runDir, "tortie.sock"),
      nodename_file_optional: true,
    };
  }

  /** Writes the node's list, as an installer does. */
  list(mode: "require" | "off"): void {
    const { cniVersion, name, ...plugin } = this.conf(mode);
    writeFileSync(join(this.node.dir, "draft"), JSON.stringify({ cniVersion, name, plugins: [plugin] }));
    renameSync(join(this.node.dir, "draft"), join(this.lists, "10-net1.conflist"));
  }

  write(name: string, ...documents: readonly object[]): void {
    const text = documents.map((document) => `${JSON.stringify(document)}\n`).join("---\n");
    writeFileSync(join(this.node.dir, "draft"), text);
    renameSync(join(this.node.dir, "draft"), join(this.policies, `${name}.yaml`));
  }

  remove(name: string): void {
    rmSync(join(this.policies, `${name}.yaml`));
  }

  async startAgent(args: readonly string[] = []): Promise<Agent> {
    const agent = await Agent.start(this.node, {
      env: { CNI_NET_DIR: this.lists },
      binds: { "/var/lib/cni": join(this.node.dir, "cache") },
      args: ["--policy-directory", this.policies, ...args],
    });
    return this.#stack.use(agent);
  }

  call(command: string, on: Pick<EarlyPod, "pod" | "containerId" | "args">, conf = this.conf("off")): Promise<CniRun> {
    return this.node.cni(command, { pod: on.pod, containerId: on.containerId, args: on.args, conf });
  }

  /**
   * Attaches a pod that answers at port 80 by the plugin, without an agent or with the one that there is.
   * @param isCached whether the runtime keeps the arguments, as libcni does
   */
  async attach(
    name: string,
    labels: Readonly<Record<string, string>>,
    { mode = "off", isCached = true }: { readonly mode?: "require" | "off"; readonly isCached?: boolean } = {},
  ): Promise<EarlyPod> {
    const pod = await this.node.addPod(name);
    const prober = this.#stack.use(new Dialogue(this.node.commandLine([PYTHON, "test/support/programs/prober.py"], {}, pod)));
    const containerId = `cid-${name}`;
    const text = Object.entries(labels).map(([key, value]) => `${key}:${value}`);
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name};K8S_POD_LABELS=${text.join(",")}`;
    const added = await this.call("ADD", { pod, containerId, args }, this.conf(mode));
    if (added.exit !== 0) throw new Error(`ADD of ${name}: ${added.stdout}${added.stderr}`);
    const result = JSON.parse(added.stdout);
    if (isCached) this.#cache(containerId, pod, args, result);
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    return { pod, prober, containerId, args, result, ...placeOf(result) };
  }

  /** The file that libcni keeps of an ADD. */
  #cache(containerId: string, pod: Pod, args: string, result: object): void {
    const cniArgs = args.split(";").map((pair) => pair.split("="));
    const config = Buffer.from("{}").toString("base64");
    const kept = { kind: "cniCacheV1", containerId, config, ifName: "eth0", networkName: "net1", netns: pod.netnsPath, cniArgs, result };
    writeFileSync(join(this.node.dir, "cache/results", `net1-${containerId}-eth0`), JSON.stringify(kept), { mode: 0o600 });
  }

  /** Takes the pod apart by the plugin, and ends its sandbox. */
  async detach(on: EarlyPod, mode: "require" | "off" = "require"): Promise<void> {
    const removed = await this.call("DEL", on, this.conf(mode));
    if (removed.exit !== 0) throw new Error(`DEL: ${removed.stdout}${removed.stderr}`);
    await this.node.removePod(on.pod);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

interface ShownCheck {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly next?: string;
}

/** What the agent's health says of attachments. */
export async function attachmentsCheck(agent: Agent): Promise<ShownCheck | undefined> {
  const { json } = await agent.request("GET", "/healthz");
  return (json as { checks: ShownCheck[] }).checks.find(({ name }) => name === "attachments");
}
