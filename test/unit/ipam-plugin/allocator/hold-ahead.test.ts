/** The handle that is raised while the node's only block is read: it saves a round, and must leave nothing behind when it was for nothing. */
import { HandleExistsError } from "../../../../ipam-plugin/ipam-plugin.ts";
import { Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";
import type { Fate } from "../../../support/memory-datastore.ts";
import { emptyBlock, fullBlock, sampleAffinity } from "../../../support/samples.ts";

const [FIRST, SECOND] = ["10.0.0.0/26", "10.0.0.64/26"];
const READ = "get block 10-0-0-0-26";
const RAISE = "create handle c1";

/** A node with one block, or with the blocks given, on a store that lists from memory. */
function owning(setup: ClusterSetup = {}): Promise<Cluster> {
  const blocks = setup.blocks ?? [emptyBlock(FIRST, 64, { affinity: host("node-a") })];
  const affinities = blocks.map(({ cidr }) => sampleAffinity("node-a", cidr));
  return Cluster.create({ hasMemory: true, affinities, ...setup, blocks });
}

/** Lets a call be answered only when another has been made. */
function holdBack(cluster: Cluster, held: string, until: string): void {
  const made = Promise.withResolvers<void>();
  cluster.fateOf = async (call): Promise<Fate> => {
    if (call === until) made.resolve();
    if (call === held) await made.promise;
    return "proceed";
  };
}

describe("a handle whose node has one block", () => {
  it("is raised without waiting for the block, which is written after both", async () => {
    const cluster = await owning();
    holdBack(cluster, READ, RAISE);
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/26"]);
    expect(cluster.calls.slice(3)).toEqual([READ, RAISE, "update block 10-0-0-0-26"]);
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1 } });
  });

  it("is raised for each family beside its block", async () => {
    const cluster = await owning({
      pools: { "10.0.0.0/24": {}, "fd00::/112": { blockSize: 122 } },
      blocks: [FIRST, "fd00::/122"].map((cidr) => emptyBlock(cidr, 64, { affinity: host("node-a") })),
    });
    holdBack(cluster, "get block fd00---122", "update handle c1");
    await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1, "fd00::/122": 1 } });
  });

  it.each([
    ["is full", [fullBlock(FIRST, "node-a")]],
    ["is another's", [emptyBlock(FIRST, 64, { affinity: host("node-b") })]],
  ])("counts nothing in the block when that %s", async (_, blocks) => {
    const cluster = await owning({ blocks });
    const [taken] = await cluster.assign("node-a", "c1");
    const [, block] = await cluster.blocks();
    expect(taken).toBe(block?.cidr);
    expect(await cluster.handles()).toEqual({ c1: { [block?.cidr ?? ""]: 1 } });
    expect(cluster.calls).toContain("delete handle c1");
  });

  it("counts nothing when the block is full and there is no other", async () => {
    const cluster = await owning({ pools: { [FIRST]: {} }, blocks: [fullBlock(FIRST, "node-a")] });
    expect(await cluster.assign("node-a", "c1")).toEqual([]);
    expect(await cluster.handles()).toEqual({});
  });

  it("counts what it counted before when an ADD of the same container comes to nothing", async () => {
    const cluster = await owning({ pools: { [FIRST]: {} } });
    await cluster.assign("node-a", "c1", 64);
    expect(await cluster.assign("node-a", "c1")).toEqual([]);
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 64 } });
  });

  it("that is there already is taken back and raised for a new block with one write each", async () => {
    const cluster = await owning({ blocks: [fullBlock(FIRST, "node-a")], handles: { c1: { [SECOND]: 1 } } });
    await cluster.assign("node-a", "c1");
    const ofHandle = cluster.calls.filter((call) => call.endsWith("handle c1"));
    expect(ofHandle).toEqual([RAISE, "get handle c1", "update handle c1", "update handle c1", "update handle c1"]);
  });

  it("is taken back when the block cannot be read, which is the error", async () => {
    const cluster = await owning();
    cluster.fateOf = (call) => (call === READ ? "unavailable" : "proceed");
    await expect(cluster.assign("node-a", "c1")).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringContaining("block"),
    });
    expect(await cluster.handles()).toEqual({});
  });

  it("that cannot be taken back either is set right by the DEL", async () => {
    const cluster = await owning();
    cluster.fateOf = (call) => (call === READ || call.startsWith("delete handle") ? "unavailable" : "proceed");
    await expect(cluster.assign("node-a", "c1")).rejects.toMatchObject({ message: expect.stringContaining("block") });
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1 } });

    cluster.fateOf = undefined;
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.handles()).toEqual({});
    expect(await cluster.block(FIRST)).toMatchObject({ attributes: [] });
  });

  it.each([
    ["has room", {}],
    ["is full", { blocks: [fullBlock(FIRST, "node-a")] }],
  ])("that must be new and is not stays as it was, when the block %s", async (_, setup) => {
    const cluster = await owning({ ...setup, handles: { c1: { [SECOND]: 1 } } });
    const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 1, mustBeNew: true });
    expect(ipv4?.error).toBeInstanceOf(HandleExistsError);
    expect(ipv4?.addresses).toEqual([]);
    expect(await cluster.handles()).toEqual({ c1: { [SECOND]: 1 } });
  });
});

describe("a handle that is not raised before the block is known to have room", () => {
  it("is one whose node has several blocks, many of which may be full", async () => {
    const cluster = await owning({ blocks: [fullBlock(FIRST, "node-a"), emptyBlock(SECOND, 64, { affinity: host("node-a") })] });
    await cluster.assign("node-a", "c1");
    expect(cluster.calls.slice(3)).toEqual([READ, "get block 10-0-0-64-26", RAISE, "update block 10-0-0-64-26"]);
  });

  it("is one that may hold only so many addresses", async () => {
    const cluster = await owning();
    await cluster.assign("node-a", "c1", 1, { perHandleLimit: 1 });
    expect(cluster.calls.slice(-3)).toEqual([READ, RAISE, "update block 10-0-0-0-26"]);
    cluster.calls.length = 0;
    await cluster.assign("node-a", "c1", 1, { perHandleLimit: 1 });
    expect(cluster.calls.filter((call) => call.includes("e handle"))).toEqual([]);
  });
});
