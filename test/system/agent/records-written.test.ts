/** How often the agent writes an endpoint's record, seen from outside by its system calls (A§11.4, A§5.10). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { callAgent } from "../../support/agent-calls.ts";
import { localConf } from "../../support/conf.ts";
import { Node } from "../../support/node.ts";
import { follow } from "../../support/strace.ts";

/** Renames in the agent's state directory while the work runs, in their order, as "directory/file" of their targets. */
async function renamesDuring({ pid, node, runDir }: Agent, work: () => Promise<unknown>): Promise<readonly string[]> {
  const output = join(node.dir, "renames");
  const strace = await follow(pid, ["-e", "trace=rename,renameat,renameat2", "-e", "signal=none", "-o", output]);
  await work();
  const ended = new Promise((done) => strace.once("close", done));
  strace.kill("SIGINT");
  await ended;
  const targets = [...readFileSync(output, "utf8").matchAll(/"[^"]*", (?:AT_FDCWD, )?"([^"]*)"/g)].map(([, target = ""]) => target);
  return targets.filter((target) => target.startsWith(join(runDir, "state"))).map((target) => target.split("/").slice(-2).join("/"));
}

describe("The record of an endpoint", () => {
  it("is written twice by an ADD, and once by a DEL before its directory is set aside", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0" });
    const pod = await node.addPod();
    const call = (verb: string) => async () => expect(await callAgent(agent, verb, conf, { pod })).toMatchObject({ status: 200 });

    const added = await renamesDuring(agent, call("add"));
    const deleted = await renamesDuring(agent, call("del"));

    const record = expect.stringMatching(/^\d+\/endpoint\.json$/);
    expect(added).toEqual([record, record]);
    expect(deleted).toEqual([record, expect.stringMatching(/^gone\//)]);
  });
});
