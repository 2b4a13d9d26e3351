/** Endpoints that another program registered: removed by GC and after a restart like those of an ADD (A§2.7, A§11.5). */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { callAgent, recordsOf } from "../../support/agent-calls.ts";
import { fresh } from "../../support/fixtures.ts";
import { granted, HOST_SCOPE, hostScopeConf } from "../../support/host-scope-agent.ts";
import { Node } from "../../support/node.ts";

/** Network and router have the first two. */
const GRANTED = "10.62.0.3";

/** An endpoint of `net1` with an address that its maker was granted. */
async function registered(node: Node): Promise<Agent> {
  const agent = await Agent.start(node, { args: HOST_SCOPE });
  const { json } = await agent.request("POST", "/ipam?owner=vm&family=ipv4", undefined, { expiration: "true" });
  const { "expiration-uuid": token } = (json as { ipv4: { "expiration-uuid": string } }).ipv4;
  const body = {
    "container-id": "vm1",
    attachment: { network: "net1", "container-id": "vm1", ifname: "eth0" },
    addressing: { ipv4: GRANTED, "ipv4-expiration-uuid": token },
  };
  expect(await agent.request("PUT", "/endpoint/0", body)).toMatchObject({ status: 201 });
  expect(granted(agent)).toContain(GRANTED);
  return agent;
}

async function restartInPhase(agent: Agent, phase: string): Promise<void> {
  await agent.kill();
  const [record] = recordsOf(agent);
  const path = join(agent.runDir, "state", String(record?.id), "endpoint.json");
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace('"phase":"ready"', `"phase":"${phase}"`));
  expect(recordsOf(agent)).toMatchObject([{ phase }]);
  await agent.restart();
}

const node = fresh(Node.create);
const agent = fresh(() => registered(node));

describe("G13: a registered endpoint", () => {
  it("is removed by a GC of its network, with the address that is the agent's", async () => {
    const conf = hostScopeConf(agent, { "cni.dev/valid-attachments": [] });

    expect(await callAgent(agent, "gc", conf)).toMatchObject({ status: 200, text: "" });

    expect(recordsOf(agent)).toEqual([]);
    expect(granted(agent)).not.toContain(GRANTED);
  });

  it("whose removal was interrupted is gone after a restart", async () => {
    await restartInPhase(agent, "deleting:begun");
    await agent.until("the end of the removal", () => recordsOf(agent).length === 0);
    expect(granted(agent)).not.toContain(GRANTED);
  });

  it("whose registration was interrupted is gone after a restart, and its address is still its client's", async () => {
    await restartInPhase(agent, "creating");
    await agent.until("the end of the removal", () => recordsOf(agent).length === 0);
    expect(granted(agent)).toContain(GRANTED);
  });
});
