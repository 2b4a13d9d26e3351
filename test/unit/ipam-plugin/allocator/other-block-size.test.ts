/** A pool whose block size was changed while it had blocks: no two blocks hold one address, and those that are there go on serving. */
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { formatPrefix, overlaps } from "../../../../lib/addresses/address.ts";
import type { Block } from "../../../../lib/datastore/resources.ts";
import { prefix } from "../../../support/addresses.ts";
import { Cluster, host, inEachStore } from "../../../support/cluster.ts";
import { MemoryStore } from "../../../support/memory-datastore.ts";
import { emptyBlock, fullBlock, sampleAffinity, samplePool, sampleRequest } from "../../../support/samples.ts";
import { Scheduler } from "../../../support/scheduler.ts";

const POOL = "10.66.0.0/25";

/** Pairs of blocks that have an address in common. */
function overlapping(blocks: readonly Pick<Block, "cidr">[]): readonly string[] {
  return blocks.flatMap(({ cidr }, index) =>
    blocks.slice(index + 1).flatMap((other) => (overlaps(prefix(cidr), prefix(other.cidr)) ? [`${cidr} ${other.cidr}`] : [])),
  );
}

inEachStore(() => {
  /** Ten pods of node-a with blocks of /29, then another size. */
  async function changed(blockSize: number, cidr = POOL): Promise<Cluster> {
    const cluster = await Cluster.create({ pools: { [cidr]: { blockSize: 29 } } });
    await cluster.assign("node-a", "early", 10);
    await cluster.changePool("p0", { blockSize });
    cluster.calls.length = 0;
    return cluster;
  }

  describe("a pool whose blocks were /29 and are to be /26", () => {
    it("gives 22 pods of another node addresses that nobody has", async () => {
      const cluster = await changed(26);
      const early = (await cluster.allocator.addressesByHandle("early")) ?? [];
      const late = await cluster.assign("node-b", "late", 22);
      const all = [...early.map(({ address }) => address.value), ...late.map((one) => prefix(one).address.value)];
      expect(new Set(all).size).toBe(32);
      expect(overlapping(await cluster.blocks())).toEqual([]);
    });

    it("gives the node itself what its blocks have left, then a block of the new size", async () => {
      const cluster = await changed(26);
      const late = await cluster.assign("node-a", "late", 10);
      expect(late.slice(0, 6).every((address) => address.endsWith("/29"))).toBe(true);
      expect(late.slice(6).every((address) => address.endsWith("/26"))).toBe(true);
      expect(overlapping(await cluster.blocks())).toEqual([]);
    });

    it("lends what is left where no place is free, and says why there is no block", async () => {
      const cluster = await changed(26, "10.66.0.0/26");
      const borrowed = await cluster.assign("node-b", "late", 6);
      expect(borrowed.every((address) => address.endsWith("/29"))).toBe(true);
      const { ipv4 } = await cluster.autoAssign("node-b", "more");
      expect(ipv4?.addresses).toEqual([]);
      expect(ipv4?.messages.join()).toMatch(/block 10\.66\.0\.0\/26 would overlap with block 10\.66\.0\.\d+\/29/);
      expect(await cluster.affinities()).toEqual([expect.stringContaining("node-a"), expect.stringContaining("node-a")]);
    });

    it("gives a requested address out of a block of the old size", async () => {
      const cluster = await changed(26);
      const [block] = await cluster.blocks();
      const free = formatPrefix({ ...prefix(block?.cidr ?? ""), length: 32 }).split("/")[0] ?? "";
      const inBlock = free.replace(/\d+$/, (last) => String(Number(last) + 7));
      const taken = (await cluster.allocator.addressesByHandle("early")) ?? [];
      const isTaken = taken.some(({ address }) => address.value === prefix(`${inBlock}/32`).address.value);
      const asked = cluster.assignIp("node-b", "named", inBlock);
      if (isTaken) await expect(asked).rejects.toMatchObject({ word: "address-taken" });
      else expect(await asked).toBe(`${inBlock}/32`);
      expect(overlapping(await cluster.blocks())).toEqual([]);
    });

    it("refuses a requested address whose block would overlap, and says with which", async () => {
      const cluster = await Cluster.create({ pools: { "10.66.0.0/26": { blockSize: 26 } } });
      await own(cluster, "10.66.0.16/29");
      await expect(cluster.assignIp("node-b", "named", "10.66.0.5")).rejects.toMatchObject({
        word: "blocks-overlap",
        message: "block 10.66.0.0/26 would overlap with block 10.66.0.16/29, which has another size",
      });
      expect(await cluster.affinities()).toEqual(["node-a 10.66.0.16/29 confirmed"]);
    });

    it("finds who holds an address, and releases it", async () => {
      const cluster = await changed(26);
      const [held] = (await cluster.allocator.addressesByHandle("early")) ?? [];
      if (held === undefined) throw new Error("nothing held");
      expect((await cluster.allocator.attributesOf(held.address))?.handle).toBe("early");
      expect(await cluster.allocator.releaseIps([{ address: held.address, block: held.block }])).toMatchObject({ unallocated: [] });
    });
  });

  it("a pool whose blocks were /26 and are to be /29 makes none inside them", async () => {
    const cluster = await Cluster.create({ pools: { [POOL]: { blockSize: 26 } } });
    await cluster.assign("node-a", "early", 10);
    await cluster.changePool("p0", { blockSize: 29 });
    await cluster.assign("node-b", "late", 30);
    expect(overlapping(await cluster.blocks())).toEqual([]);
  });

  it("a block that is on its way is passed over as one that is there", async () => {
    const cluster = await Cluster.create({ pools: { [POOL]: { blockSize: 26 } } });
    const pending = sampleAffinity("node-a", "10.66.0.64/29", { state: "pending" });
    await cluster.datastore.affinities.create(pending, pending);
    expect(await cluster.assign("node-b", "c1")).toEqual(["10.66.0.0/26"]);
  });

  it("a block without owner counts as well", async () => {
    const cluster = await Cluster.create({ pools: { [POOL]: { blockSize: 26 } } });
    const full = { ...fullBlock("10.66.0.64/29", "node-a"), affinity: undefined };
    await cluster.datastore.blocks.create(full.cidr, full);
    expect(await cluster.assign("node-b", "c1", 60)).toHaveLength(60);
    expect(overlapping(await cluster.blocks())).toEqual([]);
  });

  async function own(cluster: Cluster, cidr: string): Promise<void> {
    const affinity = sampleAffinity("node-a", cidr);
    await cluster.datastore.affinities.create(affinity, affinity);
    await cluster.datastore.blocks.create(cidr, emptyBlock(cidr, 8, { affinity: host("node-a") }));
  }
});

describe("nodes that see different block sizes of one pool claim at the same moment", () => {
  it.each(Array.from({ length: 60 }, (_, seed) => seed))("and make no blocks that overlap (seed %s)", async (seed) => {
    const store = new MemoryStore();
    const view = store.connect();
    await view.pools.create("p", samplePool("p", "10.66.0.0/26", { blockSize: 29 }));
    const scheduler = new Scheduler({ seed });
    const { gate, clock, random, sleep } = scheduler;
    const sizes = [26, 27, 28, 29, 30];
    const runs = sizes.map((blockSize, index) => {
      const datastore = store.connect(`client-${index}`, gate);
      const pools = { ...datastore.pools, list: async () => [{ value: samplePool("p", "10.66.0.0/26", { blockSize }), revision: "1" }] };
      const allocator = new Allocator({ datastore: Object.assign(Object.create(datastore), { pools }), clock, random, sleep });
      return async () => (await allocator.autoAssign(sampleRequest(`node-${index}`, `client-${index}`))).ipv4?.addresses ?? [];
    });
    const endings = await scheduler.run(runs);
    expect(overlapping((await view.blocks.list()).map(({ value }) => value))).toEqual([]);
    const given = endings.flatMap((ending) =>
      ending.state === "done" ? ending.value.map(({ prefix: { address } }) => address.value) : [],
    );
    expect(new Set(given).size).toBe(given.length);
    expect(given.length).toBeGreaterThan(0);
  });
});
