/** The history that the agent serves: of calls that it served, of what plugins did without it, and after it was killed. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent, callAgent } from "../../support/agent-calls.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

const node = fresh(Node.create);

interface Entry {
  readonly event: string;
  readonly outcome: string;
  readonly "container-id": string;
  readonly addresses: readonly string[];
  readonly steps: readonly { readonly name: string }[];
}

function callOf(name: string, containerId: string) {
  return { containerId, args: podArgs(name, "default", containerId) };
}

async function historyOf(agent: Agent, query = ""): Promise<readonly Entry[]> {
  return (await agent.request("GET", `/history${query}`)).json as readonly Entry[];
}

it("has each operation of a pod with its steps, and finds it by address, pod and container", async () => {
  await using agent = await Agent.start(node);
  const [web, db] = [callOf("web", "aa11"), callOf("db", "bb22")];
  await addByAgent(agent, localConf(node), { ...web, pod: await node.addPod() });
  await addByAgent(agent, localConf(node), { ...db, pod: await node.addPod() });
  await callAgent(agent, "del", localConf(node), web);

  const all = await historyOf(agent);
  const [, , first] = all;

  expect(all.map((one) => `${one.event} ${one["container-id"]} ${one.outcome}`)).toEqual(["del aa11 ok", "add bb22 ok", "add aa11 ok"]);
  expect(first?.steps.map(({ name }) => name)).toEqual(expect.arrayContaining(["ipam", "dataplane", "endpoint"]));
  for (const query of [`?address=${first?.addresses[0]}`, "?pod=default/web", "?container=aa"]) {
    expect([query, (await historyOf(agent, query)).map(({ event }) => event)]).toEqual([query, ["del", "add"]]);
  }
  expect(await historyOf(agent, "?limit=1")).toHaveLength(1);
  expect((await agent.request("GET", "/history?address=nonsense")).status).toBe(400);
});

it("has the ADD whose answer came a moment before the agent was killed", async () => {
  await using agent = await Agent.start(node);
  await addByAgent(agent, localConf(node), { ...callOf("web", "cc33"), pod: await node.addPod() });
  await agent.kill();

  const { stdout } = await node.run([join(BIN_DIR, "tortiectl"), "ipam", "history", "--socket", agent.socket, "--json"]);

  expect(JSON.parse(stdout)).toMatchObject([{ containerId: "cc33", pod: "default/web" }]);
});

it("says of pods that were attached before the agent came that they are there", async () => {
  const { cniVersion, name, ...plugin } = localConf(node);
  const lists = join(node.dir, "net.d");
  mkdirSync(lists);
  writeFileSync(join(lists, "10.conflist"), JSON.stringify({ cniVersion, name, plugins: [{ ...plugin, agent: "require" }] }));
  const pod = await node.addPod("web");
  const added = await node.cni("ADD", { conf: localConf(node), pod, containerId: "aa11", args: podArgs("web") });

  await using agent = await Agent.start(node, { env: { CNI_NET_DIR: lists } });
  await agent.until("it is noted", async () => (await historyOf(agent)).length > 0);

  expect(added.exit).toBe(0);
  expect(await historyOf(agent, "?container=aa11")).toMatchObject([{ event: "assigned", outcome: "ok", pod: "default/web" }]);
});
