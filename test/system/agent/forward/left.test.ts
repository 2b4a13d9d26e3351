/** DELs on a node whose agent was stopped on purpose, or has died and does not come back (A§11.5, G11, W5). */
import { utimesSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../../support/agent.ts";
import { localConf } from "../../../support/conf.ts";
import { fresh } from "../../../support/fixtures.ts";
import { until } from "../../../support/kubernetes/until.ts";
import { holdLock } from "../../../support/lock-holder-process.ts";
import { Node, type Pod } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

const FREE = { allocated: [], handles: [], endpoints: [] };
/** Longer than an agent may be away before its plugins do without it. */
const LONG_SECONDS = 310;

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));
const confOf = (change: object = {}) => ({
  ...localConf(node, { cniVersion: "1.1.0", agent_socket: agent.socket, agent: "auto" }),
  ...change,
});

async function add(containerId: string): Promise<Pod> {
  const pod = await node.addPod();
  expect(await node.cni("ADD", { pod, containerId, conf: confOf() })).toMatchObject({ exit: 0 });
  return pod;
}

const linksOf = async (pod: Pod) => (await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname);

/** As if the agent had written its phase long ago. */
function ageAgentFile(): void {
  const then = Date.now() / 1000 - LONG_SECONDS;
  utimesSync(join(agent.runDir, "agent.json"), then, then);
}

async function restartedClean(...pods: readonly Pod[]): Promise<void> {
  await agent.restart();
  await until("the queue is empty", () => agent.queue.length === 0);
  await until("the agent has no endpoints", async () => JSON.stringify((await agent.request("GET", "/endpoint")).json) === "[]");
  await node.expectClean();
  for (const pod of pods) expect(await linksOf(pod)).toEqual(["lo"]);
  expect(await readStore(node)).toMatchObject(FREE);
}

describe("A DEL after the agent was stopped", () => {
  it("G11, W5: is carried out at once, as a whole, and its successor is told", async () => {
    const pod = await add("one");
    await agent.stop();

    expect(await node.cni("DEL", { pod, containerId: "one", conf: confOf() })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
    expect(await readStore(node)).toMatchObject(FREE);
    expect(agent.queue).toHaveLength(1);
    await restartedClean(pod);
  });

  it("G11: is not undone by an agent that starts while it releases the addresses", async () => {
    const pod = await add("one");
    await agent.stop();

    const holder = await holdLock(`${node.dir}/ipam.lock`, 60);
    const deletion = node.cni("DEL", { pod, containerId: "one", conf: confOf() });
    await until("the link is gone", async () => (await linksOf(pod)).length === 1);
    // The address is granted still, so nothing but the DEL tells the agent that the link must not come back.
    await agent.restart();
    await Bun.sleep(1_000);
    const links = await linksOf(pod);
    holder.kill("SIGKILL");

    expect(await deletion).toMatchObject({ exit: 0, stdout: "" });
    expect(links).toEqual(["lo"]);
    await restartedClean(pod);
  });
});

describe("DELs that were queued for an agent that does not come back", () => {
  it.each(["DEL", "GC"])(
    "G11: are carried out by the next %s, and an agent that comes back after all forgets their containers",
    async (command) => {
      const [one, two, last] = [await add("one"), await add("two"), await add("last")];
      await agent.kill();
      const conf = confOf({ agent_wait_seconds: 0 });
      expect(await node.cni("DEL", { pod: one, containerId: "one", conf })).toMatchObject({ exit: 0 });
      expect(await node.cni("DEL", { pod: two, containerId: "two", conf })).toMatchObject({ exit: 0 });
      expect((await readStore(node)).allocated).toHaveLength(3);

      ageAgentFile();
      const call = command === "DEL" ? { pod: last, containerId: "last", conf } : { conf: { ...conf, "cni.dev/valid-attachments": [] } };
      expect(await node.cni(command, call)).toMatchObject({ exit: 0, stdout: "" });
      expect(await readStore(node)).toMatchObject(FREE);
      await node.expectClean();
      await restartedClean(one, two, last);
    },
  );

  it("G11: leave alone a container that was added anew beside the agent", async () => {
    const pod = await add("one");
    await agent.kill();
    const conf = confOf({ agent_wait_seconds: 0 });
    expect(await node.cni("DEL", { pod, containerId: "one", conf })).toMatchObject({ exit: 0 });
    ageAgentFile();
    expect(await node.cni("ADD", { pod, containerId: "one", conf })).toMatchObject({ exit: 0 });

    expect(await node.cni("DEL", { containerId: "another", conf })).toMatchObject({ exit: 0 });
    expect(await linksOf(pod)).toEqual(["lo", "eth0"]);
    expect((await readStore(node)).allocated).toHaveLength(1);
  });
});
