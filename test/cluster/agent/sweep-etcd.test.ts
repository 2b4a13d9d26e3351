/** What killed runtimes left in a real etcd, beside containers that plugins attached without an agent. Its minutes are the test's. */

import { AddressSweep, sweptBlocks } from "../../../agent/sweep/addresses.ts";
import type { HostLink } from "../../../dataplane/linux/host-facts.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { Hosts } from "../../../main-plugin/hosts.ts";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { shared } from "../../support/fixtures.ts";

const SILENT = { error: () => undefined, info: () => undefined, writeNow: () => undefined };
const MINUTE_MS = 60_000;

const etcd = shared(startEtcd);

async function linksOf({ node }: EtcdNode): Promise<readonly HostLink[]> {
  const dump = await node.ip("-j", "-d", "link", "show");
  return dump.map(({ ifindex, ifname, ifalias = "" }) => ({
    index: Number(ifindex),
    name: String(ifname),
    alias: String(ifalias),
    isUp: true,
    kind: "veth",
  }));
}

describe("the sweep of a node whose addresses are in etcd", () => {
  it("releases what a killed runtime left, with its endpoint, and nothing of another node, network or living container", async () => {
    await using world = await EtcdNode.create(etcd);
    await world.put("nodes", "node2", {});
    const add = async (containerId: string, keys: Readonly<Record<string, unknown>> = {}) => {
      const pod = await world.node.addPod();
      expect(await world.call("ADD", pod, { containerId, keys })).toMatchObject({ exit: 0 });
      return pod;
    };
    await add("living");
    const gone = await add("gone");
    const elsewhere = await add("elsewhere", { name: "other" });
    const remote = await add("remote", { nodename: "node2" });
    for (const pod of [gone, elsewhere, remote]) await world.node.removePod(pod);

    const config = decodeNetworkConfig({ ...world.conf(), etcd_endpoints: etcd.endpoints });
    await using hosts = new Hosts({ log: SILENT });
    const { ipam } = hosts.of(config, {});
    const clock = new FakeClock();
    let links: readonly HostLink[] = [];
    const sweep = new AddressSweep({
      clock,
      isRestored: () => true,
      store: sweptBlocks(() => [{ config, nodeName: "node1", ipam }], SILENT),
      witnesses: { records: () => [], links: () => links, pods: undefined },
      tryLock: () => ({ [Symbol.dispose]: () => undefined }),
      onReleased: () => undefined,
      onUnread: () => undefined,
    });
    const handles = async () => (await world.keys("ipam/v2/handle/")).map((key) => key.slice(key.lastIndexOf("/") + 1)).sort();
    const look = async () => {
      links = await linksOf(world);
      await sweep.run(new AbortController().signal);
    };

    await look();
    await clock.advance(MINUTE_MS - 1);
    await look();
    expect(await handles()).toEqual(["net1.gone", "net1.living", "net1.remote", "other.elsewhere"]);
    for (let minute = 0; minute < 15; minute++) {
      await clock.advance(MINUTE_MS);
      await look();
    }
    expect(await handles()).toEqual(["net1.living", "net1.remote", "other.elsewhere"]);
    expect(await world.endpoint("gone")).toBeUndefined();
    expect(await world.endpoint("living")).toMatchObject({ spec: { containerID: "living", node: "node1" } });
    expect(await world.endpoint("remote", "default", "node2")).toMatchObject({ spec: { containerID: "remote", node: "node2" } });
  });
});
