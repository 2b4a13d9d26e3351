/** The file and the commands of docs/how-to/enforce-policy.md and docs/how-to/explain-policy.md on one host, as they stand, with a real agent. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addressesOf } from "../../support/cni-result.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { until } from "../../support/kubernetes/until.ts";
import { Node, type Pod } from "../../support/node.ts";
import { commandsOf } from "../../support/page.ts";
import { PageHost } from "../../support/page-host.ts";

const [, POLICY = ""] = /^```yaml\n(.*?)^```$/ms.exec(readFileSync("docs/how-to/enforce-policy.md", "utf8")) ?? [];
const LABELS = { web: "app:web,tier:front", client: "app:client", stranger: "app:stranger" } as const;
type Name = keyof typeof LABELS;

class PolicyHost implements AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly page: PageHost;
  readonly addresses = new Map<Name, string>();
  readonly pods = new Map<Name, Pod>();

  private constructor(node: Node, agent: Agent, page: PageHost) {
    this.node = node;
    this.agent = agent;
    this.page = page;
  }

  /** Attaches the three pods beside the policy of the page. */
  static async create(): Promise<PolicyHost> {
    const node = await Node.create();
    const directory = join(node.dir, "policies");
    mkdirSync(directory);
    writeFileSync(join(node.dir, "web.yaml"), POLICY);
    renameSync(join(node.dir, "web.yaml"), join(directory, "web.yaml"));
    const agent = await Agent.start(node, { args: ["--datastore-type", "local", "--policy-directory", directory] });
    const page = await PageHost.create({ env: { TORTIE_SOCK: agent.socket } }, node);
    const host = new PolicyHost(node, agent, page);
    for (const [name, labels] of Object.entries(LABELS) as [Name, string][]) {
      const pod = await node.addPod();
      const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_LABELS=${labels}`;
      const run = await node.cni("ADD", { pod, conf: localConf(node, agent.netconf), containerId: name, args });
      host.pods.set(name, pod);
      host.addresses.set(name, addressesOf(run.json)[0] ?? "");
    }
    return host;
  }

  /** Says whether a pod can connect to port 8080 of web, where somebody listens. */
  async reaches(from: Name): Promise<boolean> {
    const script = `exec 3<>/dev/tcp/${this.addresses.get("web")}/8080`;
    return (await this.node.run(["timeout", "2", "bash", "-c", script], {}, this.pods.get(from))).exit === 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.page[Symbol.asyncDispose]();
    await this.agent[Symbol.asyncDispose]();
    await this.node[Symbol.asyncDispose]();
  }
}

const host = fresh(() => PolicyHost.create());

it("the pages enforce a policy from a file, show it, explain a refusal, and open the host again without the agent", async () => {
  const [command = "", ...args] = host.node.commandLine(["python3", "-m", "http.server", "8080"], {}, host.pods.get("web"));
  const server = spawn(command, args, { stdio: "ignore" });
  try {
    await until("the server", () => host.reaches("client"));
    expect(await host.reaches("stranger")).toBe(false);

    const shown = await host.page.run(commandsOf("how-to/enforce-policy.md", "## Did it work?").join("\n"));
    expect(shown).toContain("default/web");
    expect(shown).toContain("table inet tortie-policy");
    await host.page.run("tortiectl policy wait");

    const explained = await host.page.run(commandsOf("how-to/explain-policy.md", "## Ask about a connection").join("\n"));
    expect(explained).toContain("default/web");
    expect(explained).toMatch(/allow/);
    expect(await host.page.run("tortiectl policy explain default/client default/web 8081 || true")).toMatch(/8081/);
    const dropped = await host.page.run(commandsOf("how-to/explain-policy.md", "## Look at what was dropped").join("\n"));
    expect(dropped).toContain("default/stranger");
    const listed = await host.page.run(commandsOf("how-to/explain-policy.md", "## See which policies there are").join("\n"));
    expect(listed).toContain("default/web");

    await host.agent.stop();
    expect(await host.reaches("stranger")).toBe(false);
    await host.page.run(commandsOf("how-to/enforce-policy.md", "## Turn it off").join("\n"));
    expect(await host.reaches("stranger")).toBe(true);
  } finally {
    server.kill();
  }
}, 120_000);
