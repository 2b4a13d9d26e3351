/** The controller's duties with addresses of both families, in clusters that have one of Calico's two API groups and not the other. */
import { FINALIZER } from "../../../controller/duties/pools.ts";
import { ClusterAddresses } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { type CalicoGroup, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";

const NONE = { addresses: [], blocks: [], affinities: [] };

describe.each<CalicoGroup>([LEGACY, V3])("in a cluster of %s, with both families", (group) => {
  const cluster = shared(() => startCluster({ groups: [group] }));
  const addresses = shared(() => ClusterAddresses.open(cluster, group));
  beforeEach(async () => {
    await addresses.clear(["node1", "node2"]);
    await cluster.createPool("pool4", { group, cidr: "10.60.0.0/24", blockSize: 29 });
    await cluster.createPool("pool6", { group, cidr: "fd60::/112", blockSize: 125 });
  });

  const begin = () => ControllerTerm.begin(cluster, {}, { group });
  const handles = async () => (await addresses.datastore.handles.list()).map(({ value }) => value.id);

  it("a node that is gone loses its addresses, tunnels, blocks and handles, and another keeps its own", async () => {
    await addresses.take("node1", "web");
    await addresses.take6("node1", "web");
    await addresses.takeTunnel("node1");
    await addresses.takeTunnel6("node1");
    const other = [await addresses.addPod("node2", "other"), await addresses.take6("node2", "other")].sort();
    const before = await addresses.of("node1");
    expect([before.addresses.length, before.blocks.length, before.affinities.length]).toEqual([4, 2, 2]);
    await using controller = await begin();
    await cluster.remove("v1", "nodes", "node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(5);
    expect(await addresses.of("node1")).toEqual(before);
    await controller.minutes(3);
    expect(await addresses.of("node1")).toEqual(NONE);
    expect(await handles()).toEqual(["net1.other-c"]);
    expect((await addresses.of("node2")).addresses).toEqual(other);
    expect(await addresses.damage()).toEqual([]);
  });

  it("a leaked address of either family is released after fifteen minutes, and tunnels stay", async () => {
    const leaked = [await addresses.take("node1", "never-was"), await addresses.take6("node1", "never-was")];
    const tunnels = [await addresses.takeTunnel("node1"), await addresses.takeTunnel6("node1")];
    await using controller = await begin();
    await controller.minutes(14);
    expect((await addresses.of("node1")).addresses).toEqual([...leaked, ...tunnels].sort());
    await controller.minutes(2);
    expect((await addresses.of("node1")).addresses).toEqual(tunnels.sort());
    expect((await handles()).sort()).toEqual(["vxlan-tunnel-addr-node1", "vxlan-v6-tunnel-addr-node1"]);
  });

  it("an IPv6 pool that is deleted stays while one of its addresses is in use, and goes with its blocks; the other pool stays", async () => {
    await addresses.take6("node1", "web");
    await using controller = await begin();
    await controller.minutes(1);
    const pool = () => cluster.get(group, "ippools", "pool6");
    await cluster.api("DELETE", `/apis/${group}/ippools/pool6`);
    await controller.sees("the deletion", (view) => view.pools.some(({ pool: { deleting } }) => deleting));
    await controller.minutes(3);
    expect((await pool())?.metadata).toMatchObject({ deletionTimestamp: expect.any(String), finalizers: [FINALIZER] });
    await addresses.allocator.releaseByHandle("net1.web-c");
    await controller.minutes(2);
    expect(await pool()).toBeUndefined();
    expect(await addresses.of("node1")).toEqual(NONE);
    expect((await cluster.get(group, "ippools", "pool4"))?.metadata.deletionTimestamp).toBeUndefined();
  });
});
