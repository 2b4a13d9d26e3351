/** DELs on a node whose agent was stopped on purpose, or has died and does not come back (A§11.5, G11, W5). */
import { readdirSync, utimesSync } from "node:fs";
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

interface World extends AsyncDisposable {
  readonly node: Node;
  readonly agent: Agent;
  readonly conf: Record<string, unknown>;
  readonly add: (containerId: string) => Promise<Pod>;
}

async function world(): Promise<World> {
  const node = await Node.create();
  const agent = await Agent.start(node);
  const conf = localConf(node, { cniVersion: "1.1.0", agent_socket: agent.socket, agent: "auto" });
  return {
    node,
    agent,
    conf,
    async add(containerId) {
      const pod = await node.addPod();
      expect(await node.cni("ADD", { pod, containerId, conf })).toMatchObject({ exit: 0 });
      return pod;
    },
    async [Symbol.asyncDispose]() {
      await agent[Symbol.asyncDispose]();
      await node[Symbol.asyncDispose]();
    },
  };
}

const queueOf = ({ runDir }: Agent) => readdirSync(join(runDir, "deletequeue")).filter((name) => name.endsWith(".json"));
const linksOf = async (node: Node, pod: Pod) => (await node.podIp(pod, "-j", "link", "show")).map(({ ifname }) => ifname);

/** As if the agent had written its phase long ago. */
function ageAgentFile({ runDir }: Agent): void {
  const then = Date.now() / 1000 - LONG_SECONDS;
  utimesSync(join(runDir, "agent.json"), then, then);
}

async function restartedClean({ node, agent }: World, pods: readonly Pod[]): Promise<void> {
  await agent.restart();
  await until("the queue is empty", () => queueOf(agent).length === 0);
  await until("the agent has no endpoints", async () => JSON.stringify((await agent.request("GET", "/endpoint")).json) === "[]");
  await node.expectClean();
  for (const pod of pods) expect(await linksOf(node, pod)).toEqual(["lo"]);
  expect(await readStore(node)).toMatchObject(FREE);
}

const here = fresh(() => world());

describe("A DEL after the agent was stopped", () => {
  it("G11, W5: is carried out at once, as a whole, and its successor is told", async () => {
    const { node, agent, conf, add } = here;
    const pod = await add("one");
    await agent.stop();

    expect(await node.cni("DEL", { pod, containerId: "one", conf })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
    expect(await readStore(node)).toMatchObject(FREE);
    expect(queueOf(agent)).toHaveLength(1);
    await restartedClean(here, [pod]);
  });

  it("G11: is not undone by an agent that starts while it releases the addresses", async () => {
    const { node, agent, conf, add } = here;
    const pod = await add("one");
    await agent.stop();

    const holder = await holdLock(`${node.dir}/ipam.lock`, 60);
    const deletion = node.cni("DEL", { pod, containerId: "one", conf });
    await until("the link is gone", async () => (await linksOf(node, pod)).length === 1);
    // The address is granted still, so nothing but the DEL tells the agent that the link must not come back.
    await agent.restart();
    await Bun.sleep(1_000);
    const links = await linksOf(node, pod);
    holder.kill("SIGKILL");

    expect(await deletion).toMatchObject({ exit: 0, stdout: "" });
    expect(links).toEqual(["lo"]);
    await restartedClean(here, [pod]);
  });
});

describe("DELs that were queued for an agent that does not come back", () => {
  it.each(["DEL", "GC"])(
    "G11: are carried out by the next %s, and an agent that comes back after all forgets their containers",
    async (command) => {
      const { node, agent, conf, add } = here;
      const [one, two, last] = [await add("one"), await add("two"), await add("last")];
      await agent.kill();
      const keys = { ...conf, agent_wait_seconds: 0 };
      expect(await node.cni("DEL", { pod: one, containerId: "one", conf: keys })).toMatchObject({ exit: 0 });
      expect(await node.cni("DEL", { pod: two, containerId: "two", conf: keys })).toMatchObject({ exit: 0 });
      expect((await readStore(node)).allocated).toHaveLength(3);

      ageAgentFile(agent);
      const call =
        command === "DEL" ? { pod: last, containerId: "last", conf: keys } : { conf: { ...keys, "cni.dev/valid-attachments": [] } };
      expect(await node.cni(command, call)).toMatchObject({ exit: 0, stdout: "" });
      expect(await readStore(node)).toMatchObject(FREE);
      await node.expectClean();
      await restartedClean(here, [one, two, last]);
    },
  );

  it("G11: leave alone a container that was added anew beside the agent", async () => {
    const { node, agent, conf, add } = here;
    const pod = await add("one");
    await agent.kill();
    const keys = { ...conf, agent_wait_seconds: 0 };
    expect(await node.cni("DEL", { pod, containerId: "one", conf: keys })).toMatchObject({ exit: 0 });
    ageAgentFile(agent);
    expect(await node.cni("ADD", { pod, containerId: "one", conf: keys })).toMatchObject({ exit: 0 });

    expect(await node.cni("DEL", { containerId: "another", conf: keys })).toMatchObject({ exit: 0 });
    expect(await linksOf(node, pod)).toEqual(["lo", "eth0"]);
    expect((await readStore(node)).allocated).toHaveLength(1);
  });
});
