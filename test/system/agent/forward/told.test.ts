/** Content of a queued DEL (A§11.5). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../../support/agent.ts";
import { localConf } from "../../../support/conf.ts";
import { fresh } from "../../../support/fixtures.ts";
import { Node } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

async function restart(): Promise<void> {
  const before = agent.log.length;
  await agent.restart();
  await agent.until("its endpoints are built", () => / restored\b(?!:)/.test(agent.log.slice(before)));
  await agent.until("the queue is empty", () => agent.queue.length === 0);
}

describe("an agent that was unavailable", () => {
  it("S14: finds in a queued DEL the variables that decide something, and no other of the runtime's", async () => {
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf, agent_wait_seconds: 1 });
    const pod = await node.addPod();
    const env = { REGISTRY_PASSWORD: "runtime-secret", FELIX_INTERFACEPREFIX: "tap" };
    expect(await node.cni("ADD", { pod, conf, env })).toMatchObject({ exit: 0 });
    await agent.stop();

    expect(await node.cni("DEL", { pod, conf, env })).toMatchObject({ exit: 0 });

    const [name = ""] = agent.queue;
    const text = readFileSync(join(agent.runDir, "deletequeue", name), "utf8");
    expect(text).not.toContain("runtime-secret");
    expect(JSON.parse(text)).toMatchObject({ env: { FELIX_INTERFACEPREFIX: "tap" } });
    await restart();
    expect(await readStore(node)).toMatchObject({ allocated: [], handles: [], endpoints: [] });
  });
});
