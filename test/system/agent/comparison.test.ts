/** What an agent says of addresses that its endpoints bear and that are granted to them no more: real stores, files, links and pods. */
import { readFileSync, writeFileSync } from "node:fs";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { Hosts } from "../../../main-plugin/hosts.ts";
import { address } from "../../support/addresses.ts";
import { Agent } from "../../support/agent.ts";
import { addressesOf } from "../../support/cni-result.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { grantOf, HOST_SCOPE, hostScopeConf } from "../../support/host-scope-agent.ts";
import { Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/** Every background task looks each second here. */
const OFTEN = ["--max-controller-interval", "1"];

async function add(node: Node, conf: Record<string, unknown>, containerId: string) {
  const pod = await node.addPod();
  const added = await node.cni("ADD", { pod, containerId, conf });
  if (added.exit !== 0) throw new Error(JSON.stringify(added));
  return { pod, address: addressesOf(added.json)[0] ?? "" };
}

const storeOf = (node: Node) => decodeNetworkConfig({ name: "net1", datastore_type: "local", datastore_path: node.datastorePath });

/** As `tortiectl ipam release` does: by the store alone. */
async function release(node: Node, containerId: string): Promise<void> {
  await using hosts = new Hosts({ log: { error: () => undefined } });
  const { allocator } = await hosts.of(storeOf(node), {}).ipam();
  expect((await allocator.releaseByHandle(`net1.${containerId}`)).released).toHaveLength(1);
}

/** To a container of another node. */
async function grant(node: Node, text: string, containerId: string): Promise<void> {
  await using hosts = new Hosts({ log: { error: () => undefined } });
  const { allocator } = await hosts.of(storeOf(node), {}).ipam();
  const attributes = { node: "node2", namespace: "shop", pod: "db" };
  await allocator.assignIp({ address: address(text), handle: `net1.${containerId}`, attributes, owner: { type: "host", name: "node2" } });
}

async function findings(agent: Agent): Promise<readonly string[]> {
  const { findings: found } = (await agent.request("GET", "/healthz")).json as { findings: string[] };
  return found.filter((finding) => finding.startsWith("address-"));
}

const routesOf = async (node: Node) => (await node.ip("-j", "route", "show")).map(({ dst }) => String(dst));

const node = fresh(Node.create);

describe("G21: an address that was released while its container runs", () => {
  it("is a finding that says what to do, is a conflict when another container has it, and ends with the container", async () => {
    await using agent = await Agent.start(node, { args: OFTEN });
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf });
    const lost = await add(node, conf, "lost");
    await add(node, conf, "kept");
    await agent.looks("compare-addresses", 2);
    expect(await findings(agent)).toEqual([]);

    await release(node, "lost");
    await agent.until("the finding", async () => (await findings(agent)).length > 0);

    const found = `address-lost: ${lost.address} of endpoint `;
    expect(await findings(agent)).toEqual([expect.stringContaining(found)]);
    expect((await findings(agent))[0]).toMatch(
      /container lost\) is not granted to it any more: another container may get it; restart the pod$/,
    );
    expect(agent.log).toContain(found);
    expect((await agent.request("GET", "/metrics")).text).toMatch(/tortie_sweep_findings_total\{kind="address-lost"\} [1-9]/);

    await grant(node, lost.address, "other");
    await agent.until("the conflict", async () => (await findings(agent)).some((finding) => finding.startsWith("address-conflict")));
    expect(await findings(agent)).toEqual([
      expect.stringContaining(`${lost.address} is granted to handle net1.other of pod shop/db on node node2; restart the pod`),
    ]);

    expect(await node.cni("DEL", { pod: lost.pod, containerId: "lost", conf })).toMatchObject({ exit: 0 });
    await agent.until("the end of the finding", async () => (await findings(agent)).length === 0);
    const { handles } = await readStore(node);
    expect(handles.map(({ id }) => id).sort()).toEqual(["net1.kept", "net1.other"]);
  });

  it("is found by an agent that starts, which mends nothing of its link", async () => {
    node.excuse("the address is released while its container runs", "not-granted");
    await using agent = await Agent.start(node);
    const conf = localConf(node, { cniVersion: "1.1.0", ...agent.netconf });
    const [lost, kept] = [await add(node, conf, "lost"), await add(node, conf, "kept")];
    await agent.stop();
    await release(node, "lost");
    for (const { address } of [lost, kept]) await node.ip("route", "del", address);

    await agent.restart();
    await agent.until("the finding", async () => (await findings(agent)).length > 0);
    await agent.until("the other's route", async () => (await routesOf(node)).includes(kept.address));

    expect(await findings(agent)).toEqual([expect.stringContaining(`address-lost: ${lost.address} of endpoint `)]);
    expect(await routesOf(node)).not.toContain(lost.address);
  });

  it("is found in the grant files of the host scope, and is over when the file is back", async () => {
    await using agent = await Agent.start(node, { args: [...HOST_SCOPE, ...OFTEN] });
    const lost = await add(node, hostScopeConf(agent), "lost");
    const path = grantOf(agent, lost.address);
    const own = readFileSync(path, "utf8");
    writeFileSync(path, `${JSON.stringify({ owner: "client", token: "theirs", "granted-at": "2026-01-01T00:00:00.000Z" })}\n`);

    await agent.until("the conflict", async () => (await findings(agent)).length > 0);
    expect(await findings(agent)).toEqual([expect.stringContaining(`${lost.address} is granted to client; restart the pod`)]);

    writeFileSync(path, own);
    await agent.until("the end of the finding", async () => (await findings(agent)).length === 0);
    expect(agent.log).toMatch(/the addresses of endpoint \d+ are granted to it again/);
  });
});
