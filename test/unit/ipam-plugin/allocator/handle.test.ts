import { AT_LIMIT, type Hold, type Holder, hold, settle, undoHold } from "../../../../ipam-plugin/allocator/handle.ts";
import { Operation } from "../../../../ipam-plugin/allocator/operation.ts";
import type { Datastore } from "../../../../lib/datastore/datastore.ts";
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { Cluster, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { emptyBlock, heldBlock } from "../../../support/samples.ts";

const CIDR = "10.0.0.0/26";

function operationOn({ datastore }: { readonly datastore: Datastore }): Operation {
  return new Operation({ datastore, clock: { nowMs: () => 0, nowNs: () => 0n }, random: () => 0, sleep: async () => {} });
}

function holder(handle: string, limit = 0): Holder {
  return { handle, limit, known: undefined, mustBeNew: false };
}

async function held(cluster: Cluster, handle: string, count = 1): Promise<Hold> {
  const outcome = await hold(operationOn(cluster), holder(handle), CIDR, count);
  if (outcome === AT_LIMIT) throw new Error("there is no limit here");
  return outcome;
}

describe("the count of a handle", () => {
  const cluster = fresh(() => Cluster.create());

  it("is made, raised, lowered and removed", async () => {
    const first = await held(cluster, "c1");
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 } });
    const second = await held(cluster, "c1", 2);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 3 } });
    await undoHold(operationOn(cluster), second);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 } });
    // The handle has been written since: what is true is found out.
    await undoHold(operationOn(cluster), first);
    expect(await cluster.handles()).toEqual({});
  });

  it("keeps the case of the first who wrote it", async () => {
    await cluster.datastore.handles.create("c1", { id: "C1", blocks: { [CIDR]: 1 } });
    await held(cluster, "c1");
    expect((await cluster.datastore.handles.get("c1"))?.value).toEqual({ id: "C1", blocks: { [CIDR]: 2 } });
  });

  it("has its limit in each family", async () => {
    const operation = operationOn(cluster);
    const raise = (cidr: string) => hold(operation, holder("vm", 1), cidr, 1);
    await raise(CIDR);
    expect(await raise("10.0.0.64/26")).toBe(AT_LIMIT);
    expect(await raise("fd00::/122")).not.toBe(AT_LIMIT);
  });

  it("that a loser takes back, after others have settled and raised it, is not taken from them", async () => {
    await cluster.datastore.blocks.create(CIDR, emptyBlock(CIDR, 64));
    const loser = await held(cluster, "vm");
    await cluster.allocator.releaseByHandle("vm");
    const seenByOther = await cluster.datastore.blocks.get(CIDR);
    await held(cluster, "vm");
    await undoHold(operationOn(cluster), loser);
    // Either the other's count is still there, or its grant fails, because the block is not what it has seen.
    const isCounted = (await cluster.handles()).vm !== undefined;
    const isCutOff = (await cluster.datastore.blocks.get(CIDR))?.revision !== seenByOther?.revision;
    expect(isCounted || isCutOff).toBe(true);
  });
});

describe("settling a count", () => {
  const twoOfC1 = heldBlock(CIDR, [{ handleId: "c1" }, { handleId: "c1" }]);

  it.each([
    ["lowers", 5],
    ["raises", 1],
  ])("%s it to what the block records, and cuts off grants under way", async (_title, count) => {
    const cluster = await Cluster.create({ blocks: [twoOfC1], handles: { c1: { [CIDR]: count, "10.0.0.64/26": 1 } } });
    await settle(operationOn(cluster), "c1", CIDR);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 2, "10.0.0.64/26": 1 } });
    expect((await cluster.block(CIDR))?.sequenceNumber).toBe(twoOfC1.sequenceNumber + 1n);
  });

  it("writes nothing when it is right", async () => {
    const cluster = await Cluster.create({ blocks: [twoOfC1], handles: { c1: { [CIDR]: 2 } } });
    await settle(operationOn(cluster), "c1", CIDR);
    expect((await cluster.block(CIDR))?.sequenceNumber).toBe(twoOfC1.sequenceNumber);
  });

  it("is not content with a block that was granted meanwhile, and agrees by chance with the handle as it was", async () => {
    const oneOfC1 = heldBlock(CIDR, [{ handleId: "c1" }], { affinity: host("node-a") });
    const cluster = await Cluster.create({ blocks: [oneOfC1], handles: { c1: { [CIDR]: 2 } } });
    cluster.before("get block", () => cluster.assignIp("node-a", "c1", "10.0.0.1"));
    await settle(operationOn({ datastore: cluster.observed }), "c1", CIDR);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 2 } });
  });

  it("makes a handle that is missing", async () => {
    const cluster = await Cluster.create({ blocks: [twoOfC1] });
    await settle(operationOn(cluster), "c1", CIDR);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 2 } });
  });
});

describe("a handle that the store refuses", () => {
  it("is an error at once, and no block is tried for it twice", async () => {
    const cluster = await Cluster.create();
    cluster.answers("create handle", new DatastoreError("invalid", 'metadata.name: Invalid value: "net1.a_b"'));
    await expect(cluster.assign("node-a", "net1.a_b")).rejects.toMatchObject({
      word: "datastore-object-invalid",
      message: 'metadata.name: Invalid value: "net1.a_b"',
    });
    expect(cluster.calls.filter((call) => call.startsWith("create handle"))).toHaveLength(1);
  });
});
