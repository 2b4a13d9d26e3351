/** The order in which an address is granted: its block is read, the handle is raised, the block is written. */
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";
import type { Fate } from "../../../support/memory-datastore.ts";
import { emptyBlock, fullBlock, sampleAffinity } from "../../../support/samples.ts";

const [FIRST, SECOND] = ["10.0.0.0/26", "10.0.0.64/26"];
const READ = "get block 10-0-0-0-26";

/** A node with the blocks given, on a store that lists from memory. */
function owning(setup: ClusterSetup = {}): Promise<Cluster> {
  const blocks = setup.blocks ?? [emptyBlock(FIRST, 64, { affinity: host("node-a") })];
  return Cluster.create({ hasMemory: true, affinities: blocks.map(({ cidr }) => sampleAffinity("node-a", cidr)), ...setup, blocks });
}

/** Does something behind the allocator's back before the first answer to a call, after everything that does not wait for it. */
function beforeAnswer(cluster: Cluster, awaited: string, action: () => Promise<unknown>): void {
  let isDone = false;
  cluster.fateOf = async (call): Promise<Fate> => {
    if (isDone || call !== awaited) return "proceed";
    isDone = true;
    await new Promise(setImmediate);
    await action();
    return "proceed";
  };
}

describe("F7: the handle of a grant", () => {
  it("is raised after the block was read, however late the block's answer comes", async () => {
    const cluster = await owning();
    let raisedEarly: boolean | undefined;
    beforeAnswer(cluster, READ, async () => {
      raisedEarly = cluster.calls.includes("create handle c1");
    });
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/26"]);
    expect(raisedEarly).toBe(false);
    expect(cluster.calls.slice(-3)).toEqual([READ, "create handle c1", "update block 10-0-0-0-26"]);
  });

  it("counts the address even when somebody collects the handle while the block is read", async () => {
    const cluster = await owning();
    const collector = new Allocator({ datastore: cluster.datastore, clock: { nowMs: () => 0, nowNs: () => 1n } });
    beforeAnswer(cluster, READ, () => collector.releaseByHandle("c1"));
    await cluster.assign("node-a", "c1");
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1 } });
    expect((await cluster.allocator.releaseByHandle("c1")).released).toHaveLength(1);
    expect(await cluster.block(FIRST)).toMatchObject({ attributes: [] });
  });

  it("is raised for a block with room only", async () => {
    const cluster = await owning({ blocks: [fullBlock(FIRST, "node-a"), emptyBlock(SECOND, 64, { affinity: host("node-a") })] });
    await cluster.assign("node-a", "c1");
    expect(cluster.calls.filter((call) => call.includes("handle"))).toEqual(["create handle c1"]);
    expect(await cluster.handles()).toEqual({ c1: { [SECOND]: 1 } });
  });
});

describe("an address that two nodes grant to one handle from the same state of its block", () => {
  it("is his whose write was first: the other, whose numbers are the same, finds other owners there", async () => {
    const cluster = await Cluster.create();
    await cluster.assignIp("node-a", "earlier", "10.0.0.1");
    cluster.before("update block", () => cluster.assignIp("node-b", "vm", "10.0.0.9", { attributes: { pod: "first" } }));
    const late = cluster.assignIp("node-a", "vm", "10.0.0.9", { attributes: { pod: "late" } });
    await expect(late).rejects.toMatchObject({ word: "address-taken" });
    expect(await cluster.handles()).toMatchObject({ vm: { "10.0.0.0/26": 1 } });
  });
});
