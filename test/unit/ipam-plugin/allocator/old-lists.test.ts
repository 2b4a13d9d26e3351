/** Lists from a memory that lags behind the store: they may lead to a block, never to a decision that only the store can bear. */
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import type { BlockAffinity } from "../../../../lib/datastore/resources.ts";
import { addressesOf, Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";
import { emptyBlock, fullBlock, owned, sampleAffinity } from "../../../support/samples.ts";
import { change, remove } from "../../../support/stored.ts";

const [FIRST, SECOND] = ["10.0.0.0/26", "10.0.0.64/26"];
const OLD = "list affinity old host/node-a/4/";
const CONSISTENT = "list affinity host/node-a/4/";

/** A cluster whose node-a has the first block. */
function owning(setup: ClusterSetup = {}, affinity: Partial<BlockAffinity> = {}): Promise<Cluster> {
  return Cluster.create({
    hasMemory: true,
    ...owned("node-a", [FIRST], affinity),
    ...setup,
  });
}

/** What a claim lists to find the node's affinities without labels, and blocks of another size. */
const CLAIM_CHECK = ["list affinity", "list affinity unlabelled", "list block cidrs"];

function listsOf({ calls }: Cluster, kind = ""): readonly string[] {
  return calls.filter((call) => call.startsWith(`list ${kind}`) && !CLAIM_CHECK.includes(call));
}

async function own({ datastore }: Cluster, node: string, cidr: string): Promise<void> {
  const affinity = sampleAffinity(node, cidr);
  await datastore.affinities.create(affinity, affinity);
  await datastore.blocks.create(cidr, emptyBlock(cidr, 64, { affinity: host(node) }));
}

describe("a memory that knows the node's block", () => {
  it("is all that is listed", async () => {
    const cluster = await owning();
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/26"]);
    expect([...listsOf(cluster)].sort()).toEqual([OLD, "list pool old", "list reservation old"]);
    expect(cluster.calls.slice(3)).toEqual(["get block 10-0-0-0-26", "create handle c1", "update block 10-0-0-0-26"]);
  });

  it("is enough for both families, one list each", async () => {
    const cluster = await owning({
      pools: { "10.0.0.0/24": {}, "fd00::/112": { blockSize: 122 } },
      ...owned("node-a", [FIRST, "fd00::/122"]),
    });
    const { ipv4, ipv6 } = await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    expect([...addressesOf(ipv4), ...addressesOf(ipv6)]).toEqual(["10.0.0.0/26", "fd00::/122"]);
    expect(listsOf(cluster, "affinity")).toEqual([OLD, "list affinity old host/node-a/6/"]);
  });

  it("leads past a full block to the next one", async () => {
    const cluster = await owning({
      affinities: [FIRST, SECOND].map((cidr) => sampleAffinity("node-a", cidr)),
      blocks: [fullBlock(FIRST, "node-a"), emptyBlock(SECOND, 64, { affinity: host("node-a") })],
    });
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
    expect(listsOf(cluster)).not.toContain(CONSISTENT);
  });

  it("takes the rest from a new block when its own has too few, without reading that one twice", async () => {
    const cluster = await owning({ pools: { "10.0.0.0/24": { blockSize: 31 } }, affinities: [], blocks: [] });
    expect(await cluster.assign("node-a", "c1")).toHaveLength(1);
    cluster.memory.hear("affinity");
    cluster.calls.length = 0;
    const [own] = await cluster.blocks();
    expect(await cluster.assign("node-a", "c2", 2)).toHaveLength(2);
    expect(listsOf(cluster, "affinity")).toEqual([OLD, CONSISTENT]);
    expect(cluster.calls.filter((call) => call === `get block ${own?.cidr.replaceAll(/[./]/g, "-")}`)).toHaveLength(1);
    expect(await cluster.blocks()).toHaveLength(2);
  });
});

describe("a memory that does not know of the node's block yet", () => {
  it("is asked for one more list, and no second block is claimed", async () => {
    const cluster = await Cluster.create({ hasMemory: true });
    await own(cluster, "node-a", SECOND);
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
    expect(listsOf(cluster, "affinity")).toEqual([OLD, CONSISTENT]);
    expect(await cluster.affinities()).toEqual([`node-a ${SECOND} confirmed`]);
  });

  it("does not lead beyond the number of blocks that a node may have", async () => {
    const cluster = await owning({ configuration: { maxBlocksPerHost: 2, strictAffinity: true }, blocks: [fullBlock(FIRST, "node-a")] });
    await own(cluster, "node-a", SECOND);
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
    await cluster.assign("node-a", "c2", 63);
    await expect(cluster.assign("node-a", "c3")).rejects.toMatchObject({ word: "block-limit" });
    expect(await cluster.affinities()).toEqual([`node-a ${FIRST} confirmed`, `node-a ${SECOND} confirmed`]);
  });

  it("of one family costs that family's list once more", async () => {
    const cluster = await owning({ pools: { "10.0.0.0/24": {}, "fd00::/112": { blockSize: 122 } } });
    await own(cluster, "node-a", "fd00::/122");
    const { ipv4, ipv6 } = await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    expect([...addressesOf(ipv4), ...addressesOf(ipv6)]).toEqual(["10.0.0.0/26", "fd00::/122"]);
    expect(listsOf(cluster, "affinity")).toEqual([OLD, "list affinity old host/node-a/6/", "list affinity host/node-a/6/"]);
  });
});

describe("a memory of a block that the node does not have any more", () => {
  it.each([
    ["was deleted", ({ datastore }: Cluster) => remove(datastore.blocks, FIRST)],
    [
      "is another node's",
      async (cluster: Cluster) => {
        await remove(cluster.datastore.blocks, FIRST);
        await own(cluster, "node-b", FIRST);
      },
    ],
    ["is nobody's", ({ datastore }: Cluster) => change(datastore.blocks, FIRST, { affinity: undefined })],
  ])("gives no address of it: it %s", async (_what, lose) => {
    const cluster = await owning({ configuration: { strictAffinity: true } });
    await remove(cluster.datastore.affinities, { owner: host("node-a"), cidr: FIRST });
    await lose(cluster);
    const before = await cluster.block(FIRST);

    const [address = ""] = await cluster.assign("node-a", "c1");

    expect(listsOf(cluster)).toContain(CONSISTENT);
    const mine = (await cluster.affinities()).filter((affinity) => affinity.startsWith("node-a"));
    expect(mine).toHaveLength(1);
    expect(mine[0]).toMatch(/confirmed$/);
    if (before !== undefined) expect(await cluster.block(FIRST)).toEqual(before);
    const block = (await cluster.blocks()).find(({ affinity }) => affinity?.name === "node-a");
    expect(block?.cidr.split("/")[0]).toBe(address.split("/")[0]);
  });

  it("is no obstacle when it is taken away between its reading and its writing", async () => {
    const cluster = await owning({ configuration: { strictAffinity: true } });
    cluster.before("update block", async () => {
      await remove(cluster.datastore.blocks, FIRST);
      await remove(cluster.datastore.affinities, { owner: host("node-a"), cidr: FIRST });
      await own(cluster, "node-b", FIRST);
    });
    const [address] = await cluster.assign("node-a", "c1");
    expect(address).toBe("10.0.0.128/26");
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.128/26": 1 } });
  });
});

describe("what is out of the ordinary is left to a list that is not old", () => {
  it.each<[string, ClusterSetup, Partial<BlockAffinity>]>([
    ["an affinity that is pending", {}, { state: "pending" }],
    ["an affinity that is being given up", {}, { state: "pendingDeletion" }],
    ["an affinity without labels", {}, { labelled: false }],
    ["a block of a disabled pool", { pools: { "10.0.0.0/24": { disabled: true }, "10.1.0.0/24": {} } }, {}],
    ["a block of a pool that is being deleted", { pools: { "10.0.0.0/24": { deleting: true }, "10.1.0.0/24": {} } }, {}],
    ["a block of a pool that is gone", { pools: { "10.1.0.0/24": {} } }, {}],
    [
      "a block of a pool that does not select the node",
      { pools: { "10.0.0.0/24": { nodeSelector: "zone == 'b'" }, "10.1.0.0/24": {} }, nodes: { "node-a": { zone: "a" } } },
      {},
    ],
  ])("%s", async (_what, setup, affinity) => {
    const [old, plain] = [await owning({ ...setup, hasMemory: true }, affinity), await owning({ ...setup, hasMemory: false }, affinity)];
    const addresses = await old.assign("node-a", "c1");
    expect(addresses).toEqual(await plain.assign("node-a", "c1"));
    expect(listsOf(old, "affinity")).toEqual([OLD, CONSISTENT]);
    // As without a memory, but for the list itself.
    expect(old.calls.filter((call) => !call.startsWith("list"))).toEqual(plain.calls.filter((call) => !call.startsWith("list")));
    expect(await old.affinities()).toEqual(await plain.affinities());
    expect(await old.blocks()).toEqual(await plain.blocks());
  });

  it("but a request for certain pools does not mind the blocks of others", async () => {
    const cluster = await owning({
      pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {} },
      ...owned("node-a", [FIRST, "10.1.0.0/26"]),
    });
    expect(await cluster.assign("node-a", "c1", 1, { ipv4Pools: ["10.1.0.0/24"] })).toEqual(["10.1.0.0/26"]);
    expect(listsOf(cluster)).not.toContain(CONSISTENT);
  });

  it("and a block that cannot be written keeps nobody from the next one, and nothing stays counted", async () => {
    const cluster = await owning({
      ...owned("node-a", [FIRST, SECOND]),
    });
    cluster.answers("update block 10-0-0-0-26", new DatastoreError("invalid", "the server does not take it"));
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
    expect(await cluster.handles()).toEqual({ c1: { [SECOND]: 1 } });
  });
});

describe("nobody is refused because of a pool that the memory does not know of yet", () => {
  it.each([
    ["the only pool", {}, [] as readonly string[]],
    ["the pool that was asked for", { "10.1.0.0/24": {} }, ["10.0.0.0/24"]],
    ["the pool that selects the node", { "10.1.0.0/24": { nodeSelector: "zone == 'b'" } }, []],
    ["the pool for workloads", { "10.1.0.0/24": { allowedUses: ["Tunnel"] } }, []],
  ] as const)("%s", async (_what, pools, ipv4Pools) => {
    const cluster = await Cluster.create({ hasMemory: true, pools, nodes: { "node-a": { zone: "a" } } });
    await cluster.addPool("new", "10.0.0.0/24");
    expect(await cluster.assign("node-a", "c1", 1, { ipv4Pools })).toEqual([expect.stringMatching(/^10\.0\.0\./)]);
    expect(listsOf(cluster, "pool")).toEqual(["list pool old", "list pool"]);
  });

  it("but is when there is none, after one more look", async () => {
    const cluster = await Cluster.create({ hasMemory: true, pools: { "10.0.0.0/24": { disabled: true } } });
    await expect(cluster.assign("node-a", "c1")).rejects.toMatchObject({ word: "pool-none" });
    expect(listsOf(cluster, "pool")).toEqual(["list pool old", "list pool"]);
  });
});

describe("a store without a memory", () => {
  it("is never asked for a list that may be old", async () => {
    const cluster = await owning({ hasMemory: false });
    await cluster.assign("node-a", "c1");
    expect(listsOf(cluster)).toEqual(expect.not.arrayContaining([expect.stringContaining("old")]));
    expect(listsOf(cluster)).toContain(CONSISTENT);
  });
});
