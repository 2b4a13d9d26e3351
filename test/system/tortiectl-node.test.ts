/** `tortiectl node` at a running agent: names of endpoints, forms of lists, watching, the level of its log. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { Agent, cniCallBody } from "../support/agent.ts";
import { localConf, podArgs } from "../support/conf.ts";
import { fresh } from "../support/fixtures.ts";
import { until } from "../support/kubernetes/until.ts";
import { BIN_DIR, Node, type RunResult } from "../support/node.ts";

interface Bench extends AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly addresses: readonly string[];
  tortie(...argv: string[]): Promise<RunResult>;
}

/** An agent with two pods, default/web and default/db, of the containers aa11 and aa22. */
async function bench(): Promise<Bench> {
  const node = await Node.create();
  const agent = await Agent.start(node);
  const addresses: string[] = [];
  for (const [name, containerId] of [
    ["web", "aa11"],
    ["db", "aa22"],
  ] as const) {
    const pod = await node.addPod();
    const body = cniCallBody(localConf(node), { containerId, netns: pod.netnsPath, args: podArgs(name, "default", containerId) });
    const { json } = await agent.call("add", body);
    addresses.push((json as { ips: { address: string }[] }).ips[0]?.address.split("/")[0] ?? "");
  }
  return {
    node,
    agent,
    addresses,
    tortie: (...argv) => node.run([join(BIN_DIR, "tortiectl"), "node", ...argv, "--socket", agent.socket]),
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]();
      await node[Symbol.asyncDispose]();
    },
  };
}

const at = fresh(() => bench());

describe("tortiectl node", () => {
  it("finds an endpoint by whatever is seen of it", async () => {
    const number = /^endpoint +(\d+)$/m;
    const numbered = async (name: string) => number.exec((await at.tortie("endpoint", name)).stdout)?.[1];

    const wanted = await numbered("container-id:aa22");

    expect(wanted).toMatch(/^\d+$/);
    for (const name of [at.addresses[1] ?? "", "default/db", "db", "aa22", "aa2", wanted ?? ""]) {
      expect([name, await numbered(name)]).toEqual([name, wanted]);
    }
    expect(await at.tortie("endpoint", "aa")).toMatchObject({ exit: 1, stderr: expect.stringContaining("(endpoint-ambiguous)") });
  });

  it("shows lists wide and as YAML", async () => {
    const wide = await at.tortie("endpoints", "-o", "wide");
    const yaml = await at.tortie("endpoints", "-o", "yaml");
    const json = await at.tortie("endpoints", "--json");

    expect(wide.stdout).toMatch(/^ID .* CONTAINER +NETWORK +MAC +SANDBOX +ADDED +IDENTITY\n/);
    expect(wide.stdout).toContain("net1");
    expect(parse(yaml.stdout)).toEqual(JSON.parse(json.stdout));
    expect((await at.tortie("endpoints", "-o", "json")).stdout).toBe(json.stdout);
  });

  it("shows a list again when it has changed, until it is told to end", async () => {
    const [output, pid] = [join(at.node.dir, "looks"), join(at.node.dir, "watch.pid")];
    const command = `echo $$ >${pid}; exec ${join(BIN_DIR, "tortiectl")} node endpoints --watch --socket ${at.agent.socket} >${output}`;
    const watching = at.node.run(["/bin/sh", "-c", command]);
    const looks = () =>
      existsSync(output)
        ? readFileSync(output, "utf8")
            .split(/^ID .*\n/m)
            .slice(1)
        : [];
    await until("both are shown", () => looks().at(-1)?.includes("default/web") === true);

    await at.agent.call(
      "del",
      cniCallBody(localConf(at.node), { containerId: "aa11", netns: "", args: podArgs("web", "default", "aa11") }),
    );
    await until("one is shown", () => looks().at(-1)?.includes("default/web") === false);
    process.kill(Number(readFileSync(pid, "utf8")), "SIGINT");

    expect(await watching).toMatchObject({ exit: 0, stderr: "" });
    expect(looks()[0]).toMatch(/default\/web.*default\/db/s);
    expect(looks().at(-1)).toContain("default/db");
  });

  it("changes the level of the agent's log while it runs", async () => {
    const before = await at.tortie("log-level");

    const changed = await at.tortie("log-level", "debug", "--json");

    expect(before).toMatchObject({ exit: 0, stdout: "info\n" });
    expect(JSON.parse(changed.stdout)).toEqual({ "log-level": "debug" });
    expect((await at.tortie("log-level")).stdout).toBe("debug\n");
    expect(await at.tortie("log-level", "loud")).toMatchObject({ exit: 2, stderr: expect.stringContaining('LEVEL "loud": one of') });
  });
});
