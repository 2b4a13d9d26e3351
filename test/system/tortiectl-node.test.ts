/** `tortiectl node` at a running agent: names of endpoints, forms of lists, watching, the level of its log. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { Agent } from "../support/agent.ts";
import { addByAgent, callAgent } from "../support/agent-calls.ts";
import { localConf, podArgs } from "../support/conf.ts";
import { fresh } from "../support/fixtures.ts";
import { until } from "../support/kubernetes/until.ts";
import { BIN_DIR, Node, type RunResult } from "../support/node.ts";

/** An agent with two pods, of the containers aa11 and aa22. */
const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));
const WEB = { containerId: "aa11", args: podArgs("web", "default", "aa11") };
const DB = { containerId: "aa22", args: podArgs("db", "default", "aa22") };
let addresses: readonly string[] = [];

beforeEach(async () => {
  await addByAgent(agent, localConf(node), { pod: await node.addPod(), ...WEB });
  ({ addresses } = await addByAgent(agent, localConf(node), { pod: await node.addPod(), ...DB }));
});

function tortie(...argv: string[]): Promise<RunResult> {
  return node.run([join(BIN_DIR, "tortiectl"), "node", ...argv, "--socket", agent.socket]);
}

describe("tortiectl node", () => {
  it("finds an endpoint by whatever is seen of it", async () => {
    const number = /^endpoint +(\d+)$/m;
    const numbered = async (name: string) => number.exec((await tortie("endpoint", name)).stdout)?.[1];

    const wanted = await numbered("container-id:aa22");

    expect(wanted).toMatch(/^\d+$/);
    for (const name of [addresses[0] ?? "", "default/db", "db", "aa22", "aa2", wanted ?? ""]) {
      expect([name, await numbered(name)]).toEqual([name, wanted]);
    }
    expect(await tortie("endpoint", "aa")).toMatchObject({ exit: 1, stderr: expect.stringContaining("(endpoint-ambiguous)") });
  });

  it("shows lists wide and as YAML", async () => {
    const wide = await tortie("endpoints", "-o", "wide");
    const yaml = await tortie("endpoints", "-o", "yaml");
    const json = await tortie("endpoints", "--json");

    expect(wide.stdout).toMatch(/^ID .* CONTAINER +NETWORK +MAC +SANDBOX +ADDED +IDENTITY\n/);
    expect(wide.stdout).toContain("net1");
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
    expect((await tortie("endpoints", "-o", "json")).stdout).toBe(json.stdout);
  });

  it("shows a list again when it has changed, until it is told to end", async () => {
    const [output, pid] = [join(node.dir, "looks"), join(node.dir, "watch.pid")];
    const command = `echo $$ >${pid}; exec ${join(BIN_DIR, "tortiectl")} node endpoints --watch --socket ${agent.socket} >${output}`;
    const watching = node.run(["/bin/sh", "-c", command]);
    const looks = () =>
      existsSync(output)
        ? readFileSync(output, "utf8")
            .split(/^ID .*\n/m)
            .slice(1)
        : [];
    await until("both are shown", () => looks().at(-1)?.includes("default/web") === true);

    await callAgent(agent, "del", localConf(node), WEB);
    await until("one is shown", () => looks().at(-1)?.includes("default/web") === false);
    process.kill(Number(readFileSync(pid, "utf8")), "SIGINT");

    expect(await watching).toMatchObject({ exit: 0, stderr: "" });
    expect(looks()[0]).toMatch(/default\/web.*default\/db/s);
    expect(looks().at(-1)).toContain("default/db");
  });

  it("changes the level of the agent's log while it runs", async () => {
    const before = await tortie("log-level");

    const changed = await tortie("log-level", "debug", "--json");

    expect(before).toMatchObject({ exit: 0, stdout: "info\n" });
    expect(JSON.parse(changed.stdout)).toEqual({ "log-level": "debug" });
    expect((await tortie("log-level")).stdout).toBe("debug\n");
    expect(await tortie("log-level", "loud")).toMatchObject({ exit: 2, stderr: expect.stringContaining('LEVEL "loud": one of') });
  });
});
