/** DELs on a node whose agent was stopped on purpose, or has died (A§11.5). */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../../support/agent.ts";
import { localConf, podArgs } from "../../../support/conf.ts";
import { fresh } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";
import { Node, type Pod } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

const FREE = { allocated: [], handles: [], endpoints: [] };

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));
const confOf = (change: object = {}) => ({ ...localConf(node, { cniVersion: "1.1.0", ...agent.netconf }), ...change });

async function add(containerId: string, args?: string): Promise<Pod> {
  const pod = await node.addPod();
  expect(await node.cni("ADD", { pod, containerId, conf: confOf(), args })).toMatchObject({ exit: 0 });
  return pod;
}

const linksOf = async (pod: Pod) => (await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname);

async function isDrained(...pods: readonly Pod[]): Promise<void> {
  await until("the queue is empty", () => agent.queue.length === 0);
  await until("the agent has no endpoints", async () => JSON.stringify((await agent.request("GET", "/endpoint")).json) === "[]");
  await node.expectClean();
  for (const pod of pods) expect(await linksOf(pod)).toEqual(["lo"]);
  expect(await readStore(node)).toMatchObject(FREE);
}

describe("DELs while no agent is there", () => {
  it.each(["stop", "kill"] as const)("remove links and routes at once and queue the rest for the next agent, after its %s", async (end) => {
    const [one, two] = [await add("one"), await add("two")];
    await agent[end]();
    for (const [containerId, pod] of Object.entries({ one, two })) {
      expect(await node.cni("DEL", { pod, containerId, conf: confOf() })).toMatchObject({ exit: 0, stdout: "" });
    }
    await node.expectClean();
    expect((await readStore(node)).allocated).toHaveLength(2);
    expect(agent.queue).toHaveLength(2);
    await agent.restart();
    await isDrained(one, two);
  });

  it("are queued after a reboot, before the first agent has made its directory", async () => {
    const pod = await add("one");
    await agent.stop();
    rmSync(agent.runDir, { recursive: true });
    expect(await node.cni("DEL", { pod, containerId: "one", conf: confOf() })).toMatchObject({ exit: 0, stdout: "" });
    expect(agent.queue).toHaveLength(1);
    await agent.restart();
    await isDrained(pod);
  });

  it("are carried out before the ADD of the same pod, which gets the address that it asks for", async () => {
    const conf = confOf({ agent_wait_seconds: 120, runtimeConfig: { ips: ["10.244.9.9"] } });
    const old = await node.addPod();
    const args = (containerId: string) => podArgs("db", "default", containerId);
    expect(await node.cni("ADD", { pod: old, containerId: "old", conf, args: args("old") })).toMatchObject({ exit: 0 });
    await agent.kill();
    expect(await node.cni("DEL", { pod: old, containerId: "old", conf, args: args("old") })).toMatchObject({ exit: 0 });
    const pod = await node.addPod();
    const adding = node.cni("ADD", { pod, containerId: "new", conf, args: args("new") });
    await agent.restart();
    expect(await adding).toMatchObject({ exit: 0, json: { ips: [{ address: "10.244.9.9/32" }] } });
    expect(agent.queue).toEqual([]);
  });

  it("fail when the queue cannot be written, with the link gone, and succeed later", async () => {
    const pod = await add("one");
    await agent.kill();
    const queue = join(agent.runDir, "deletequeue");
    rmSync(queue, { recursive: true });
    await Bun.write(queue, "no directory");
    expect(await node.cni("DEL", { pod, containerId: "one", conf: confOf() })).toMatchObject({ exit: 1 });
    await node.expectClean();
    rmSync(queue);
    expect(await node.cni("DEL", { pod, containerId: "one", conf: confOf() })).toMatchObject({ exit: 0 });
    await agent.restart();
    await isDrained(pod);
  });
});
