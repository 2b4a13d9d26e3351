/** Pools under the controller, on a real API server with its own role. Its minutes are the test's. */

import { CONDITION, FINALIZER } from "../../../controller/duties/pools.ts";
import { rfc3339 } from "../../../ipam-plugin/allocator/block.ts";
import { DEFAULT_CONFIGURATION } from "../../../ipam-plugin/allocator/operation.ts";
import { ClusterAddresses } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, type StoredObject, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { emptyBlock } from "../../support/samples.ts";

/** Of real time, longer than the writes of a test. */
const COOLDOWN_SECONDS = 10;

const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));
beforeEach(async () => {
  await addresses.clear(["node1"]);
  await cluster.createPool("pool", { cidr: "10.60.0.0/30", blockSize: 30 });
});

const pool = () => cluster.get(LEGACY, "ippools", "pool");
const conditionsOf = (object: StoredObject | undefined): readonly unknown[] => {
  const conditions = object?.status?.conditions;
  return Array.isArray(conditions) ? conditions : [];
};

/** A block's only address, released then. */
const coolingFirst = (released: Date) => ({
  allocations: [0, null, null, null],
  unallocated: [1, 2, 3],
  attributes: [{ releasedAt: rfc3339(released.getTime()) }],
});

describe("a pool", () => {
  it("stays while one of its addresses is in use, and goes with its blocks when none is", async () => {
    await addresses.addPod("node1", "web");
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    expect((await pool())?.metadata.finalizers).toEqual([FINALIZER]);

    await cluster.api("DELETE", `/apis/${LEGACY}/ippools/pool`);
    await controller.sees("the deletion", (view) => view.pools[0]?.pool.deleting === true);
    await controller.minutes(3);
    expect((await pool())?.metadata).toMatchObject({ deletionTimestamp: expect.any(String), finalizers: [FINALIZER] });
    await expect(addresses.take("node1", "late")).rejects.toThrow("cannot find a qualified ippool");

    await addresses.allocator.releaseByHandle("net1.web-c");
    await addresses.removePod("web");
    await controller.minutes(2);
    expect(await pool()).toBeUndefined();
    expect(await addresses.of("node1")).toEqual({ addresses: [], blocks: [], affinities: [] });
  });

  it("G9: goes when its last addresses have cooled down, with blocks of a node and of nobody", async () => {
    const { ipamConfiguration, blocks } = addresses.datastore;
    await ipamConfiguration.create("default", { ...DEFAULT_CONFIGURATION, ipCooldownSeconds: COOLDOWN_SECONDS });
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await addresses.take("node1", "web");
    await addresses.allocator.releaseByHandle("net1.web-c");
    await cluster.createPool("orphaned", { cidr: "10.61.0.0/30", blockSize: 30 });
    await blocks.create("10.61.0.0/30", { ...emptyBlock("10.61.0.0/30", 4), ...coolingFirst(new Date()) });
    await controller.sees("both blocks and pools", ({ blocks: seen, pools }) => seen.length === 2 && pools.length === 2);
    await controller.minutes(1);
    for (const name of ["pool", "orphaned"]) await cluster.api("DELETE", `/apis/${LEGACY}/ippools/${name}`);
    await controller.sees("the deletions", ({ pools }) => pools.every((view) => view.pool.deleting));
    await controller.minutes(2);
    expect((await blocks.list()).map(({ value }) => value.cidr).sort()).toEqual(["10.60.0.0/30", "10.61.0.0/30"]);

    await until("the pools to go", async () => {
      await controller.minutes(1);
      return (await addresses.datastore.pools.list()).length === 0;
    });
    expect(await blocks.list()).toEqual([]);
    expect(await addresses.of("node1")).toEqual({ addresses: [], blocks: [], affinities: [] });
  });

  it("G9: that stays loses a block of nobody when its last address has cooled down", async () => {
    const { ipamConfiguration, blocks } = addresses.datastore;
    await ipamConfiguration.create("default", { ...DEFAULT_CONFIGURATION, ipCooldownSeconds: COOLDOWN_SECONDS });
    const longAgo = new Date(Date.now() - 3_600_000);
    await blocks.create("10.60.0.0/30", { ...emptyBlock("10.60.0.0/30", 4), ...coolingFirst(longAgo) });
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(20);
    expect(await blocks.list()).toEqual([]);
  });

  it("goes, with its blocks, whenever the controller that sees to it dies", async () => {
    let isDone = false;
    for (let writes = 0; !isDone; writes++) {
      await addresses.take("node1", "web");
      {
        await using dying = await ControllerTerm.begin(cluster, {}, { mostWrites: writes });
        await dying.minutes(1);
        await cluster.api("DELETE", `/apis/${LEGACY}/ippools/pool`);
        await addresses.allocator.releaseByHandle("net1.web-c");
        await dying.minutes(4);
        isDone = !dying.log.some((line) => line.includes("does not lead any more"));
      }
      // Without a finalizer, which is the first write, it went at once and left its node's block, which tortiectl ipam check names.
      await using next = await ControllerTerm.begin(cluster);
      await next.minutes(18);
      const left = writes === 0 ? ["block-outside-pools block 10.60.0.0/30"] : [];
      expect([writes, await pool(), await addresses.damage()]).toEqual([writes, undefined, left]);
      expect((await addresses.of("node1")).addresses).toEqual([]);
      await cluster.createPool("pool", { cidr: "10.60.0.0/30", blockSize: 30 });
      expect(writes).toBeLessThan(30);
    }
  });

  it("says in a condition how full it is, beside the conditions of others", async () => {
    const other = { type: "Allocatable", status: "True", reason: "x", message: "y" };
    await cluster.api("PATCH", `/apis/${LEGACY}/ippools/pool`, { status: { conditions: [other] } });
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(2);
    const ours = { type: CONDITION, status: "True", reason: "Available", lastTransitionTime: expect.any(String) };
    expect(conditionsOf(await pool())).toEqual([expect.objectContaining(other), expect.objectContaining(ours)]);
    for (const pod of ["a", "b", "c", "d"]) await addresses.addPod("node1", pod);
    await controller.sees("a full block", (view) => view.blocks[0]?.value.unallocated.length === 0);
    await controller.minutes(1);
    expect(conditionsOf(await pool())).toContainEqual(expect.objectContaining({ type: CONDITION, status: "False", reason: "Full" }));
    const { metadata } = (await pool()) ?? {};
    await controller.minutes(3);
    expect((await pool())?.metadata.resourceVersion).toBe(metadata?.resourceVersion);
  });

  it("stays while a block that cannot be read may hold addresses of it", async () => {
    await cluster.api("POST", `/apis/${LEGACY}/ipamblocks`, {
      apiVersion: LEGACY,
      kind: "IPAMBlock",
      metadata: { name: "10-60-0-0-30" },
      spec: {
        cidr: "10.60.0.0/30",
        affinity: "host:node1",
        allocations: [0, null, null, null],
        attributes: [{ handle_id: "net1.c", secondary: { node: "node1" } }],
        unallocated: [1, 2, 3, 9],
        strictAffinity: false,
      },
    });
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    await cluster.api("DELETE", `/apis/${LEGACY}/ippools/pool`);
    await controller.minutes(3);
    expect((await pool())?.metadata.finalizers).toEqual([FINALIZER]);
    expect(controller.log.join("\n")).toContain("pool pool is kept: a block that cannot be read may hold addresses of it");

    await cluster.api("DELETE", `/apis/${LEGACY}/ipamblocks/10-60-0-0-30`);
    await controller.minutes(3);
    expect(await pool()).toBeUndefined();
  });

  it("loses the finalizer where --pool-finalizer is false, and keeps those of others", async () => {
    await cluster.api("PATCH", `/apis/${LEGACY}/ippools/pool`, { metadata: { finalizers: [FINALIZER, "example.org/other"] } });
    await using controller = await ControllerTerm.begin(cluster, { "pool-finalizer": "false" });
    await controller.minutes(1);
    expect((await pool())?.metadata.finalizers).toEqual(["example.org/other"]);
  });
});
