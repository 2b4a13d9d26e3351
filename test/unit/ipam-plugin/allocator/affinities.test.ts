import { giveUpBlocks } from "../../../support/blocks.ts";
import { Cluster, host } from "../../../support/cluster.ts";
import { emptyBlock, owned, sampleAffinity } from "../../../support/samples.ts";
import { change } from "../../../support/stored.ts";

const POOL = { "10.0.0.0/28": { blockSize: 30 } };

describe("releasing the blocks of a host", () => {
  it("only if empty keeps the one with an address, with its owner, and tells so", async () => {
    const cluster = await Cluster.create({ pools: POOL });
    await cluster.assign("node-a", "c1", 12);
    await cluster.allocator.releaseByHandle("c1");
    await cluster.assign("node-a", "c2");
    await expect(giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: true })).rejects.toMatchObject({
      word: "block-not-empty",
    });
    expect(await cluster.affinities()).toHaveLength(1);
    expect((await cluster.blocks()).map(({ affinity }) => affinity)).toEqual([host("node-a")]);
    await cluster.allocator.releaseByHandle("c2");
    await giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: true });
    expect([await cluster.affinities(), await cluster.blocks()]).toEqual([[], []]);
  });

  it("in any case leaves blocks with addresses without owner, until the last address goes", async () => {
    const cluster = await Cluster.create({ pools: { ...POOL, "fd00::/125": { blockSize: 126 } } });
    await cluster.assign("node-a", "c1", 12);
    await cluster.autoAssign("node-a", "c1", { count6: 1 });
    await cluster.removePool("p0");
    await giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: false });
    expect(await cluster.affinities()).toEqual([]);
    const blocks = await cluster.blocks();
    expect(blocks).toHaveLength(4);
    expect(blocks.every(({ affinity, affinityClaimTime }) => affinity === undefined && affinityClaimTime === undefined)).toBe(true);
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.blocks()).toEqual([]);
  });

  it("passes over one that is another's by now, and succeeds", async () => {
    const cluster = await Cluster.create({
      affinities: [sampleAffinity("node-a", "10.0.0.0/26"), sampleAffinity("node-a", "10.0.0.64/26")],
      blocks: [emptyBlock("10.0.0.0/26", 64, { affinity: host("node-b") }), emptyBlock("10.0.0.64/26", 64, { affinity: host("node-a") })],
    });
    await giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: true });
    expect(await cluster.affinities()).toEqual([]);
    expect((await cluster.blocks()).map(({ cidr }) => cidr)).toEqual(["10.0.0.0/26"]);
  });

  it("leaves another owner of the same name its blocks", async () => {
    const virtual = { type: "virtual", name: "node-a" } as const;
    const cluster = await Cluster.create({
      blocks: [emptyBlock("10.0.0.0/26", 64, { affinity: virtual })],
      affinities: [sampleAffinity("node-a", "10.0.0.0/26", { owner: virtual })],
    });
    await giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: false });
    expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/26 confirmed"]);
  });
});

describe("releasing one block", () => {
  it("counts an address in cooldown as an address", async () => {
    const cluster = await Cluster.create({ configuration: { ipCooldownSeconds: 60 } });
    await cluster.assign("node-a", "c1");
    await cluster.allocator.releaseByHandle("c1");
    const release = () => cluster.allocator.releaseAffinity("10.0.0.128/26", host("node-a"), { mustBeEmpty: true });
    await expect(release()).rejects.toMatchObject({ word: "block-not-empty" });
    expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    cluster.nowMs += 62_000;
    await release();
    expect(await cluster.blocks()).toEqual([]);
  });

  it("removes an affinity whose block is gone, as a dead node leaves it", async () => {
    const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", "10.0.0.0/26")] });
    await cluster.allocator.releaseAffinity("10.0.0.0/26", host("node-a"), { mustBeEmpty: true });
    expect(await cluster.affinities()).toEqual([]);
  });

  it("removes an affinity for another's block, and says whose it is not", async () => {
    const cluster = await Cluster.create({
      affinities: [sampleAffinity("node-a", "10.0.0.0/26")],
      blocks: [emptyBlock("10.0.0.0/26", 64, { affinity: host("node-b") })],
    });
    await expect(cluster.allocator.releaseAffinity("10.0.0.0/26", host("node-a"), { mustBeEmpty: true })).rejects.toMatchObject({
      word: "block-claimed",
    });
    expect(await cluster.affinities()).toEqual([]);
    expect(await cluster.block("10.0.0.0/26")).toMatchObject({ affinity: host("node-b") });
  });

  it("goes on where a releaser died", async () => {
    const cluster = await Cluster.create(owned("node-a", ["10.0.0.0/26"], { state: "pendingDeletion" }));
    await cluster.allocator.releaseAffinity("10.0.0.0/26", host("node-a"), { mustBeEmpty: true });
    expect([await cluster.affinities(), await cluster.blocks()]).toEqual([[], []]);
  });

  it("is not fooled by its old mark when the owner claims it again between the reads", async () => {
    const key = { owner: host("node-a"), cidr: "10.0.0.0/26" };
    const cluster = await Cluster.create(owned("node-a", [key.cidr], { state: "pendingDeletion" }));
    let confirm: (() => Promise<unknown>) | undefined;
    cluster.before("get block", async () => {
      const { affinities, blocks } = cluster.datastore;
      const pending = await change(affinities, key, { state: "pending" });
      await change(blocks, key.cidr, {});
      confirm = () => affinities.update(key, { ...pending.value, state: "confirmed" }, pending.revision);
    });
    await cluster.allocator.releaseAffinity(key.cidr, key.owner, { mustBeEmpty: true });
    // Whoever was about to confirm must find out that the block has gone.
    await expect(confirm?.()).rejects.toMatchObject({ failure: "not-found" });
    expect([await cluster.affinities(), await cluster.blocks()]).toEqual([[], []]);
  });

  it("stops when the owner claims it again at that moment", async () => {
    const cluster = await Cluster.create(owned("node-a", ["10.0.0.0/26"], { state: "pendingDeletion" }));
    cluster.before("delete block", async () => {
      cluster.fateOf = undefined;
      await cluster.assign("node-a", "c1");
    });
    await expect(cluster.allocator.releaseAffinity("10.0.0.0/26", host("node-a"), { mustBeEmpty: true })).rejects.toMatchObject({
      word: "block-not-empty",
    });
    expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/26 confirmed"]);
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
  });
});

describe("the label upgrade", () => {
  it("R8: comes before a node claims a block, so that it uses the one whose affinity has no labels", async () => {
    const cluster = await Cluster.create(owned("node-a", ["10.0.0.64/26"], { labelled: false }));
    const { affinities } = cluster.observed;
    const listByOwner = affinities.listByOwner.bind(affinities);
    // As the API server does, which selects by labels.
    affinities.listByOwner = async (...asked) => (await listByOwner(...asked)).filter(({ value }) => value.labelled);
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
    expect(await cluster.affinities()).toEqual(["node-a 10.0.0.64/26 confirmed"]);
  });

  it("finds nothing to mend in what is claimed now", async () => {
    const cluster = await Cluster.create();
    await cluster.assign("node-a", "c1");
    expect((await cluster.datastore.affinities.listAll()).map(({ value }) => value.labelled)).toEqual([true]);
    expect(await cluster.allocator.upgradeHost(host("node-a"))).toBe(0);
  });

  it("I18: mends the host's affinities that lack their labels, and no others", async () => {
    const cluster = await Cluster.create({
      affinities: [
        sampleAffinity("node-a", "10.0.0.0/26", { labelled: false, state: "pending" }),
        sampleAffinity("node-a", "10.0.0.64/26"),
        sampleAffinity("node-b", "10.0.0.128/26", { labelled: false }),
      ],
    });
    expect(await cluster.allocator.upgradeHost(host("node-a"))).toBe(1);
    const labelled = (await cluster.datastore.affinities.listAll()).map(({ value }) => `${value.cidr} ${value.state} ${value.labelled}`);
    expect(labelled).toEqual(["10.0.0.0/26 pending true", "10.0.0.64/26 confirmed true", "10.0.0.128/26 confirmed false"]);
    expect(await cluster.allocator.upgradeHost(host("node-a"))).toBe(0);
  });
});
