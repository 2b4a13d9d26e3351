/** Calls to an agent that stands still: the forwarder gives their answers to the program to wait for (docs/project/forwarder.md). */
import { Agent } from "../../../support/agent.ts";
import { localConf } from "../../../support/conf.ts";
import { Node } from "../../../support/node.ts";
import { readStore } from "../../../support/store.ts";

/** A node whose agent stands still, with a pod. The cases wait beside each other, each on a node of its own. */
async function standstill() {
  await using made = new AsyncDisposableStack();
  const node = made.use(await Node.create());
  const agent = made.use(await Agent.start(node));
  const pod = await node.addPod();
  agent.signal("SIGSTOP");
  const kept = made.move();
  return { node, agent, pod, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

describe("A call to an agent that stands still", () => {
  it.concurrent("is answered when the agent goes on, and was made once", async () => {
    await using world = await standstill();
    const { node, agent, pod } = world;
    const adding = node.cni("ADD", { pod, conf: { ...localConf(node), ...agent.netconf } });
    await Bun.sleep(3_000);
    agent.signal("SIGCONT");
    const { exit, json } = await adding;
    expect({ exit, json }).toEqual({ exit: 0, json: expect.objectContaining({ ips: [expect.anything()] }) });
    expect((await readStore(node)).allocated).toHaveLength(1);
  });

  it.concurrent("fails after agent_timeout_seconds, and leaves nothing once the agent goes on", async () => {
    await using world = await standstill();
    const { node, agent, pod } = world;
    const { exit, json } = await node.cni("ADD", { pod, conf: { ...localConf(node), ...agent.netconf, agent_timeout_seconds: 4 } });
    expect({ exit, json }).toEqual({
      exit: 1,
      json: expect.objectContaining({ msg: "the agent did not answer within 4 s", details: expect.stringContaining("agent-timeout") }),
    });
    agent.signal("SIGCONT");
    await expectNothingOfTheCall(agent);
  });

  it.concurrent.each([
    ["the forwarder", 1_000],
    ["the program that waits after it", 3_500],
  ])("is taken back when the runtime kills %s", async (_, timeoutMs) => {
    await using world = await standstill();
    const { node, agent, pod } = world;
    const { signal } = await node.cni("ADD", { pod, conf: { ...localConf(node), ...agent.netconf }, timeoutMs });
    expect(signal).toBe("SIGKILL");
    agent.signal("SIGCONT");
    await expectNothingOfTheCall(agent);
  });

  it.concurrent("is served without it where the configuration says so", async () => {
    await using world = await standstill();
    const { node, agent, pod } = world;
    const { exit } = await node.cni("ADD", { pod, conf: { ...localConf(node), agent_socket: agent.socket, agent: "off" } });
    expect(exit).toBe(0);
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toHaveLength(1);
    agent.signal("SIGCONT");
  });
});

/** An ADD takes some 10 ms, and would be there by then. */
async function expectNothingOfTheCall(agent: Agent): Promise<void> {
  const { node } = agent;
  await agent.until("it has nothing to do with the call", async () => (await agent.request("GET", "/endpoint")).text === "[]");
  await Bun.sleep(500);
  expect((await agent.request("GET", "/endpoint")).text).toBe("[]");
  await node.expectClean();
  expect((await readStore(node)).allocated).toEqual([]);
}
