/** An ADD whose agent is killed in the middle of it, and which its plugin finishes by itself, while the next agent starts (A§11.6). */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../../support/agent.ts";
import { recordsOf } from "../../../support/agent-calls.ts";
import { localConf } from "../../../support/conf.ts";
import { until } from "../../../support/kubernetes/until.ts";
import { holdLock } from "../../../support/lock-holder-process.ts";
import { Node } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

const CONTAINER = "one";

/** The controller that takes back what an earlier agent left. */
async function finisher(agent: Agent) {
  const { json } = await agent.request("GET", "/controllers");
  const controllers = json as { name: string; status: Record<string, unknown> }[];
  return controllers.find(({ name }) => name.startsWith("finish-delete-"));
}

describe("An ADD that a killed agent had begun", () => {
  it("stands when its plugin has finished it, though the next agent was about to take it back", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = localConf(node, { agent_socket: agent.socket, agent: "auto", agent_wait_seconds: 1 });
    const pod = await node.addPod();

    // Neither the agent nor the plugin gets an address.
    const holder = await holdLock(`${node.dir}/ipam.lock`, 60);
    const adding = node.cni("ADD", { pod, containerId: CONTAINER, conf });
    await until("the agent has begun", () => recordsOf(agent).length === 1);
    await agent.kill();
    const direct = join(agent.runDir, "direct");
    await until("the plugin works without the agent", () => existsSync(direct) && readdirSync(direct).length === 1);
    await agent.restart();
    // It finds the ADD of its predecessor and waits for the plugin, which has the attachment's lock.
    await until("the removal has begun", async () => (await finisher(agent)) !== undefined);
    await Bun.sleep(500);
    holder.kill("SIGKILL");

    const added = await adding;
    expect(added).toMatchObject({ exit: 0 });
    await until("the removal is over", async () => Number((await finisher(agent))?.status["success-count"]) > 0);
    await until("the endpoint is ready", async () => {
      const { json } = await agent.request("GET", "/endpoint");
      return JSON.stringify(json).includes('"state":"ready"');
    });
    expect((await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname)).toContain("eth0");
    expect((await readStore(node)).allocated).toHaveLength(1);
    expect(
      await node.cni("CHECK", { pod, containerId: CONTAINER, conf: { ...conf, cniVersion: "1.0.0", prevResult: added.json } }),
    ).toMatchObject({ exit: 0 });
    expect(await node.cni("DEL", { pod, containerId: CONTAINER, conf })).toMatchObject({ exit: 0 });
  });
});
