/**
 * Shows a network policy on a host without any server: it comes from a file, the kernel holds it, a refused connection is explained before
 * and after it was tried, and it goes.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../test/support/agent.ts";
import { localConf } from "../../test/support/conf.ts";
import { Node, type Pod } from "../../test/support/node.ts";
import type { Screen } from "./screen.ts";
import { DemoFailure } from "./screen.ts";

const PAGE = "Hello from web.";
const PORT = 8080;
const REFUSED = "refused";
/** From the change of a file to its effect. */
const MOST_MS = 20_000;
const LABELS = { web: "app:web", client: "app:client", stranger: "app:stranger" } as const;
type Name = keyof typeof LABELS;

const POLICY = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: web, namespace: default }
spec:
  podSelector: { matchLabels: { app: web } }
  policyTypes: [Ingress]
  ingress:
    - from: [{ podSelector: { matchLabels: { app: client } } }]
      ports: [{ port: ${PORT} }]
`;

/** A node whose agent reads policies from a directory, with three pods. */
class PolicyNode implements AsyncDisposable {
  readonly #node: Node;
  readonly #agent: Agent;
  readonly #directory: string;
  readonly #pods: ReadonlyMap<Name, Pod>;
  readonly #addresses = new Map<Name, string>();

  private constructor(node: Node, agent: Agent, directory: string, pods: ReadonlyMap<Name, Pod>) {
    this.#node = node;
    this.#agent = agent;
    this.#directory = directory;
    this.#pods = pods;
  }

  static async create(): Promise<PolicyNode> {
    const node = await Node.create();
    const directory = join(node.dir, "policies");
    mkdirSync(directory);
    const pods = new Map<Name, Pod>();
    for (const name of ["web", "client", "stranger"] as const) pods.set(name, await node.addPod(name));
    const agent = await Agent.start(node, { args: ["--datastore-type", "local", "--policy-directory", directory] });
    return new PolicyNode(node, agent, directory, pods);
  }

  /** @returns its address */
  async attach(name: Name): Promise<string> {
    const run = await this.#node.cni("ADD", this.#callOf(name));
    if (run.exit !== 0) throw new DemoFailure(`${name} was not attached: ${run.stdout}${run.stderr}`);
    const { ips }: { ips: readonly { readonly address: string }[] } = JSON.parse(run.stdout);
    const address = ips[0]?.address.split("/")[0] ?? "";
    this.#addresses.set(name, address);
    return address;
  }

  async detach(name: Name): Promise<void> {
    const { exit, stdout, stderr } = await this.#node.cni("DEL", this.#callOf(name));
    if (exit !== 0) throw new DemoFailure(`${name} was not detached: ${stdout}${stderr}`);
  }

  async serve(name: Name): Promise<void> {
    const root = join(this.#node.dir, "www");
    mkdirSync(root);
    writeFileSync(join(root, "index.html"), `${PAGE}\n`);
    await this.#run(["busybox", "httpd", "-p", String(PORT), "-h", root], name);
  }

  /** @returns the page; REFUSED where nothing comes in time */
  async fetch(from: Name): Promise<string> {
    const { exit, stdout } = await this.#node.run(["curl", "--silent", "--max-time", "1.5", this.url], {}, this.#pods.get(from));
    return exit === 0 ? stdout.trim() : REFUSED;
  }

  get url(): string {
    return `http://${this.#addresses.get("web")}:${PORT}/`;
  }

  apply(): void {
    writeFileSync(join(this.#node.dir, "web.yaml"), POLICY);
    renameSync(join(this.#node.dir, "web.yaml"), join(this.#directory, "web.yaml"));
  }

  withdraw(): void {
    rmSync(join(this.#directory, "web.yaml"));
  }

  /** Tries until stranger gets what it should, since a file counts when it has not changed for a moment. @returns what it got last */
  async untilStranger(gets: string): Promise<string> {
    let got = "";
    for (const end = performance.now() + MOST_MS; performance.now() < end && got !== gets; ) got = await this.fetch("stranger");
    return got;
  }

  /** What `tortiectl policy …` prints, whatever its status: a refusal is an answer too. */
  async ask(...args: readonly string[]): Promise<string> {
    const command = [join(this.#node.binDir, "tortiectl"), "policy", ...args];
    const { stdout, stderr } = await this.#node.run(command, { env: { TORTIE_SOCK: this.#agent.socket } });
    return (stdout + stderr).trimEnd();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent[Symbol.asyncDispose]();
    await this.#node[Symbol.asyncDispose]();
  }

  #callOf(name: Name) {
    const pod = this.#pods.get(name);
    if (pod === undefined) throw new DemoFailure(`there is no pod ${name}`);
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_LABELS=${LABELS[name]}`;
    return { pod, conf: localConf(this.#node, this.#agent.netconf), containerId: name, args };
  }

  async #run(argv: readonly string[], where: Name): Promise<void> {
    const { exit, stdout, stderr } = await this.#node.run(argv, {}, this.#pods.get(where));
    if (exit !== 0) throw new DemoFailure(`${argv.join(" ")}: exit ${exit}\n${stdout}${stderr}`);
  }
}

export async function showPolicy(screen: Screen): Promise<void> {
  screen.section("Three pods and a network policy: web may be asked by client, and by nobody else");
  await using node = await PolicyNode.create();
  for (const name of ["web", "client", "stranger"] as const) screen.text(`${name.padEnd(9)} ${await node.attach(name)}  ${LABELS[name]}`);
  await node.serve("web");
  const before = await node.fetch("stranger");
  screen.claim("without a policy stranger gets web's page", before === PAGE, before);
  node.apply();
  for (const line of POLICY.trimEnd().split("\n")) screen.text(screen.colors.dim(line));
  const refused = await node.untilStranger(REFUSED);
  const allowed = await node.fetch("client");
  screen.command(`curl ${node.url}   # from client, then from stranger`);
  screen.claim("client gets the page, stranger gets nothing", allowed === PAGE && refused === REFUSED, { allowed, refused });

  screen.section("Why? Asked without a packet, and after one");
  const explained = await show(node, screen, "explain", "default/stranger", "default/web", String(PORT));
  screen.claim("policy default/web is named", explained.includes("default/web") && /den|refus/i.test(explained), explained);
  const other = await show(node, screen, "explain", "default/client", "default/web", "8081");
  screen.claim(`and for another port what comes nearest: ${PORT}`, other.includes(String(PORT)), other);
  const dropped = await show(node, screen, "drops", "default/web");
  screen.claim(
    "the kernel's drop names both pods and the policy",
    ["default/stranger", "default/web"].every((text) => dropped.includes(text)),
    dropped,
  );

  screen.section("The policy is deleted");
  node.withdraw();
  const after = await node.untilStranger(PAGE);
  screen.claim("stranger gets the page again", after === PAGE, after);
  for (const name of ["web", "client", "stranger"] as const) await node.detach(name);
}

async function show(node: PolicyNode, screen: Screen, ...args: readonly string[]): Promise<string> {
  const printed = await node.ask(...args);
  screen.command(`tortiectl policy ${args.join(" ")}`);
  for (const line of printed.split("\n")) screen.text(line);
  return printed;
}
