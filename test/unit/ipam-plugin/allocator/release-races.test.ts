/** Releases that another process overtakes, and counts that were wrong before: what ends as it should is the block and its handles. */
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { address } from "../../../support/addresses.ts";
import { Cluster, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { sampleAffinity } from "../../../support/samples.ts";
import { change, remove } from "../../../support/stored.ts";

const CIDR = "10.0.0.0/26";
const SECOND = "10.0.0.64/26";

/** c1 and c2 hold the first two addresses of node-a's only block. */
const cluster = fresh(async () => {
  const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", CIDR)] });
  await cluster.assignIp("node-a", "c1", "10.0.0.0");
  await cluster.assignIp("node-a", "c2", "10.0.0.1");
  cluster.calls.length = 0;
  return cluster;
});

async function holders(): Promise<readonly (string | undefined)[]> {
  const block = await cluster.block(CIDR);
  return (block?.allocations ?? []).flatMap((index) => (index === null ? [] : [block?.attributes[index]?.handleId]));
}

describe("a release by handle", () => {
  it("goes on until nothing is left of a handle that is granted another address meanwhile", async () => {
    cluster.before("delete handle c1", () => cluster.assign("node-a", "c1"));
    await cluster.allocator.releaseByHandle("c1");
    expect(await holders()).toEqual(["c2"]);
    expect(await cluster.handles()).toEqual({ c2: { [CIDR]: 1 } });
  });

  it("tries again when another process writes the block first", async () => {
    cluster.before("update block", () => cluster.allocator.releaseByHandle("c2"));
    await cluster.allocator.releaseByHandle("c1");
    expect(await holders()).toEqual([]);
    expect(await cluster.handles()).toEqual({});
  });

  it("is done when another process deletes the block first", async () => {
    cluster.before("update block", () => remove(cluster.datastore.blocks, CIDR));
    await cluster.allocator.releaseByHandle("c1");
    expect(Object.keys(await cluster.handles())).toEqual(["c2"]);
  });
});

describe("a release by address", () => {
  const release = (...texts: readonly string[]) => cluster.allocator.releaseIps(texts.map((text) => ({ address: address(text) })));

  it("leaves a handle that is granted another address meanwhile with the count of what it holds", async () => {
    cluster.before("delete handle c1", () => cluster.assign("node-a", "c1"));
    expect((await release("10.0.0.0")).error).toBeUndefined();
    expect((await holders()).toSorted()).toEqual(["c1", "c2"]);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 }, c2: { [CIDR]: 1 } });
  });

  it("never removes a handle that counted too little while an address stands under it", async () => {
    await cluster.assignIp("node-a", "c1", "10.0.0.2");
    await change(cluster.datastore.handles, "c1", { blocks: { [CIDR]: 1 } });
    await release("10.0.0.0");
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 }, c2: { [CIDR]: 1 } });
  });

  it("of two blocks that fail reports the first of them", async () => {
    await cluster.assignIp("node-a", "c3", "10.0.0.64");
    cluster.fateOf = (call) => {
      if (call === "get block 10-0-0-0-26") throw new DatastoreError("unavailable", "first");
      if (call === "get block 10-0-0-64-26") throw new DatastoreError("unavailable", "second");
      return "proceed";
    };
    expect((await release("10.0.0.0", "10.0.0.64")).error).toMatchObject({ message: "first" });
    cluster.fateOf = undefined;
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 }, c2: { [CIDR]: 1 }, c3: { [SECOND]: 1 } });
  });

  it.each([
    ["two addresses reads their handles", 2, ["get handle c1", "get handle c2"]],
    ["three addresses lists the handles once", 3, ["list handle"]],
  ])("of %s", async (_title, count, expected) => {
    await cluster.assignIp("node-a", "c3", "10.0.0.2");
    cluster.calls.length = 0;
    await release(...["10.0.0.0", "10.0.0.1", "10.0.0.2"].slice(0, count));
    expect(cluster.calls.filter((call) => /^(get|list) handle/.test(call))).toEqual(expected);
  });

  it("by the number of an earlier allocation leaves the address with its new holder", async () => {
    const request = { address: address("10.0.0.9"), handle: "c9", attributes: { node: "node-a" }, owner: host("node-a") };
    const { sequenceNumber } = await cluster.allocator.assignIp(request);
    await cluster.allocator.releaseByHandle("c9");
    await cluster.allocator.assignIp(request);
    const { error } = await cluster.allocator.releaseIps([{ address: request.address, handle: "c9", sequenceNumber }]);
    expect(error).toMatchObject({ word: "release-mismatch" });
    expect(await cluster.handles()).toMatchObject({ c9: { [CIDR]: 1 } });
  });
});
