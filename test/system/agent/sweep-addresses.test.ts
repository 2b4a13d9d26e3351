/** Addresses of plugins that serve their calls themselves: real stores, links and records; the minutes are the test's. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RecordStore } from "../../../agent/endpoints/store.ts";
import { AddressSweep, type SweptStore, sweptBlocks, sweptGrants } from "../../../agent/sweep/addresses.ts";
import type { HostLink } from "../../../dataplane/linux/host-facts.ts";
import { AttachmentLocks } from "../../../handover/attachment-locks.ts";
import { hostScopeFiles } from "../../../ipam-plugin/host-scope/files.ts";
import { openHostScope } from "../../../ipam-plugin/host-scope/open.ts";
import { fileKey } from "../../../lib/cni/attachment-id.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { nodeName } from "../../../lib/config/node-name.ts";
import { Hosts } from "../../../main-plugin/hosts.ts";
import { Agent } from "../../support/agent.ts";
import { localConf } from "../../support/conf.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { granted, grantOf, HOST_SCOPE, hostScopeConf } from "../../support/host-scope-agent.ts";
import { Node, type Pod } from "../../support/node.ts";

const SILENT = { error: () => undefined, info: () => undefined, writeNow: () => undefined };
const NEVER = new AbortController().signal;

/** The same parts as the agent's, on its files and its node's links. @returns a look, so many seconds after the last */
function sweepOf(agent: Agent, store: SweptStore) {
  let links: readonly HostLink[] = [];
  const clock = new FakeClock();
  const locks = new AttachmentLocks(join(agent.runDir, "attachments"));
  const records = new RecordStore(join(agent.runDir, "state"));
  const sweep = new AddressSweep({
    clock,
    isRestored: () => true,
    store,
    witnesses: {
      records: () =>
        records.ids().flatMap((id) => {
          const found = records.read(id);
          return found.kind === "record" ? [found.record] : [];
        }),
      links: () => links,
      pods: undefined,
    },
    tryLock: ({ network, containerId, ifname = "eth0" }) => locks.tryTake(fileKey({ network, containerId, ifname })),
    onReleased: () => undefined,
    onUnread: () => undefined,
  });
  return async (seconds: number) => {
    await clock.advance(seconds * 1000);
    const dump = await agent.node.ip("-j", "-d", "link", "show");
    links = dump.map(({ ifindex, ifname, ifalias = "" }) => ({
      index: Number(ifindex),
      name: String(ifname),
      alias: String(ifalias),
      isUp: true,
      kind: "veth",
    }));
    await sweep.run(NEVER);
  };
}

async function addAll(node: Node, conf: Record<string, unknown>, containers: readonly string[]): Promise<Map<string, Pod>> {
  const pods = new Map<string, Pod>();
  for (const containerId of containers) {
    const pod = await node.addPod();
    expect(await node.cni("ADD", { pod, containerId, conf })).toMatchObject({ exit: 0 });
    pods.set(containerId, pod);
  }
  return pods;
}

async function removePods(node: Node, pods: ReadonlyMap<string, Pod>, ...containers: readonly string[]): Promise<void> {
  for (const containerId of containers) {
    const pod = pods.get(containerId);
    if (pod !== undefined) await node.removePod(pod);
  }
}

// The agents' looks are a real minute apart: the cases wait beside each other, each on a node of its own.
describe("the sweep of a node on which plugins also work without the agent", () => {
  it.concurrent("takes back the grant of a killed runtime after two looks, and leaves every other one alone", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: HOST_SCOPE });
    await agent.until("the node's own addresses", () => granted(agent).length === 2);
    await addAll(node, hostScopeConf(agent), ["of-agent"]);
    await agent.kill();
    const conf = hostScopeConf(agent, { agent: "off" });
    const pods = await addAll(node, conf, ["linked", "gone"]);
    await removePods(node, pods, "gone");
    const look = sweepOf(
      agent,
      sweptGrants(() => openHostScope(hostScopeFiles(agent.runDir))),
    );
    await look(0);
    await look(59);
    expect(granted(agent)).toHaveLength(5);
    // Some of these have a grant and no link yet when the sweep looks.
    const [added] = await Promise.all([
      Promise.all(
        ["a", "b", "c", "d", "e", "f"].map(async (containerId) => node.cni("ADD", { pod: await node.addPod(), containerId, conf })),
      ),
      look(1),
    ]);
    for (const run of added) expect(run).toMatchObject({ exit: 0 });
    for (let minute = 0; minute < 15; minute++) await look(60);
    expect(granted(agent)).toHaveLength(10);
    expect(granted(agent)).not.toContain("10.62.0.5");
    expect(granted(agent)).toContain("10.62.0.4");
  });

  it.concurrent("takes back the address of a killed runtime in a local store, with its endpoint", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node);
    const conf = { ...localConf(node), ...agent.netconf, agent: "off" };
    const pods = await addAll(node, conf, ["linked", "gone"]);
    const other = { ...conf, name: "other" };
    const others = await addAll(node, other, ["gone-elsewhere"]);
    await agent.kill();
    await removePods(node, pods, "gone");
    await removePods(node, others, "gone-elsewhere");
    const config = decodeNetworkConfig(conf);
    await using hosts = new Hosts({ log: { error: () => undefined } });
    const { ipam, datastore } = hosts.of(config, {});
    const held = async () => (await (await datastore()).handles.list()).map(({ value: { id } }) => id.slice(id.indexOf(".") + 1)).sort();
    const kept = ["gone-elsewhere", "linked"];
    expect(await held()).toEqual([...kept, "gone"].sort());
    const served = [{ config, nodeName: nodeName(config), ipam }];
    const look = sweepOf(
      agent,
      sweptBlocks(() => served, SILENT),
    );
    await look(0);
    await look(59);
    expect(await held()).toContain("gone");
    await look(1);
    for (let minute = 0; minute < 15; minute++) await look(60);
    expect(await held()).toEqual(kept);
    const endpoints = (await (await datastore()).endpoints.list()).map(({ value: { containerID } }) => containerID);
    expect(endpoints.sort()).toEqual(kept);
  });

  it.concurrent("is made by the agent itself, which counts and logs it", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: [...HOST_SCOPE, "--max-controller-interval", "1"] });
    await agent.until("the node's own addresses", () => granted(agent).length === 2);
    await agent.kill();
    const conf = hostScopeConf(agent, { agent: "off" });
    const pods = await addAll(node, conf, ["living", "killed"]);
    await removePods(node, pods, "killed");
    // Both were given long ago, by the word of their files.
    for (const address of ["10.62.0.3", "10.62.0.4"]) {
      const path = grantOf(agent, address);
      writeFileSync(path, readFileSync(path, "utf8").replace(/"granted-at":"[^"]*"/, '"granted-at":"2020-01-01T00:00:00.000Z"'));
    }
    await agent.restart();
    const isReleased = () => !granted(agent).includes("10.62.0.4");
    // Longer than one wait of the agent's support.
    for (let wait = 0; wait < 3 && !isReleased(); wait++) await agent.until("the release", isReleased).catch(() => undefined);
    expect(granted(agent)).toEqual(["10.62.0.1", "10.62.0.2", "10.62.0.3"]);
    expect((await agent.request("GET", "/metrics")).text).toContain('tortie_sweep_findings_total{kind="grant-without-endpoint"} 1');
    expect(agent.log).toContain("sweep: grant-without-endpoint: released 10.62.0.4");
  });

  it.concurrent("is made by the agent itself in the stores of the networks that it serves", async () => {
    await using node = await Node.create();
    await using agent = await Agent.start(node, { args: ["--max-controller-interval", "1"] });
    await agent.kill();
    const conf = { ...localConf(node), ...agent.netconf, agent: "off" };
    const pods = await addAll(node, conf, ["living", "killed"]);
    await removePods(node, pods, "killed");
    await using hosts = new Hosts({ log: { error: () => undefined } });
    const store = await hosts.of(decodeNetworkConfig(conf), {}).datastore();
    // Both were given long ago, by the word of their block.
    for (const { value, revision } of await store.blocks.list()) {
      const timestamp = "2020-01-01 00:00:00 +0000 UTC";
      const attributes = value.attributes.map((one) => ({ ...one, activeOwner: { ...one.activeOwner, timestamp } }));
      await store.blocks.update(value.cidr, { ...value, attributes }, revision);
    }
    await agent.restart();
    await addAll(node, { ...conf, agent: "require" }, ["served"]);
    const held = async () => (await store.handles.list()).map(({ value: { id } }) => id.slice(id.indexOf(".") + 1)).sort();
    const isReleased = async () => !(await held()).includes("killed");
    for (let wait = 0; wait < 3 && !(await isReleased()); wait++) await agent.until("the release", isReleased).catch(() => undefined);
    expect(await held()).toEqual(["living", "served"]);
    expect((await agent.request("GET", "/metrics")).text).toContain('tortie_sweep_findings_total{kind="allocation-without-endpoint"} 1');
    expect(agent.log).toMatch(/sweep: allocation-without-endpoint: released .*container killed/);
  });
});
