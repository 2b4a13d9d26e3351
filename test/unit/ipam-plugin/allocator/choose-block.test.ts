import { Cluster, host, inEachStore } from "../../../support/cluster.ts";
import { emptyBlock, heldBlock, sampleAffinity } from "../../../support/samples.ts";
import { change, wanted } from "../../../support/stored.ts";

const POOL = { "10.0.0.0/29": { blockSize: 30 } };
const BOTH = ["10.0.0.0/30", "10.0.0.4/30"];
const OLD = "2026-08-22T12:33:20Z";

/** A block of node-b with one address in use, so that it cannot be taken. */
function busy(cidr: string) {
  return heldBlock(cidr, [{ handleId: "z" }], { affinity: host("node-b") });
}

/** What node-b does when it takes an address of its block. */
async function useBlock({ datastore: { blocks } }: Cluster): Promise<void> {
  const { value } = await wanted(blocks.get("10.0.0.0/30"));
  await change(blocks, value.cidr, { ...busy(value.cidr), sequenceNumber: value.sequenceNumber + 1n });
}

inEachStore(() => {
  describe("the block to claim", () => {
    it.each([
      ["node-a", "10.0.0.128/26"],
      ["node-b", "10.0.0.64/26"],
      ["worker-1", "10.0.0.64/26"],
    ])("of %s in an empty pool is the one at its start: %s", async (node, expected) => {
      const cluster = await Cluster.create();
      expect(await cluster.assign(node, "c1")).toEqual([expected]);
    });

    it("is found without a list of all blocks while the first on the walk are few", async () => {
      const cluster = await Cluster.create({ blocks: [emptyBlock("10.0.0.128/26", 64, { affinity: host("node-b") })] });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.192/26"]);
      expect(cluster.calls).not.toContain("list block");
    });

    it("is the next one round the pool when those before exist", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/28": { blockSize: 30 } },
        blocks: ["10.0.0.8/30", "10.0.0.12/30"].map(busy),
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/30"]);
    });

    it("is every block of the pool exactly once, until there is none", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/26": { blockSize: 30 } },
        configuration: { strictAffinity: true, maxBlocksPerHost: 100 },
      });
      await cluster.assign("node-a", "c1", 64);
      const blocks = (await cluster.affinities()).map((affinity) => affinity.split(" ")[1]);
      expect(new Set(blocks).size).toBe(16);
    });

    it("is one of the next pool when the first has none", async () => {
      const cluster = await Cluster.create({ pools: { ...POOL, "10.1.0.0/30": { blockSize: 30 } }, blocks: BOTH.map(busy) });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.1.0.0/30"]);
    });

    it("may be the host's own, whose affinity is missing; its number rises by two (recording block-no-affinity-all)", async () => {
      const cluster = await Cluster.create({
        pools: POOL,
        blocks: [emptyBlock("10.0.0.0/30", 4, { affinity: host("node-a"), sequenceNumber: 1000n }), busy("10.0.0.4/30")],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/30"]);
      expect((await cluster.block("10.0.0.0/30"))?.sequenceNumber).toBe(1002n);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/30 confirmed"]);
    });

    it("is never a wholly reserved one", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/28": { blockSize: 30 } }, reserved: ["10.0.0.8/29", "10.0.0.0/30"] });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.4/30"]);
    });
  });

  describe("an empty block of another host", () => {
    const setup = (since: string | undefined, withAffinity = true) => ({
      pools: { "10.0.0.0/30": { blockSize: 30 } },
      configuration: { strictAffinity: true },
      blocks: [emptyBlock("10.0.0.0/30", 4, { affinity: host("node-b"), ...(since === undefined ? {} : { affinityClaimTime: since }) })],
      affinities: withAffinity ? [sampleAffinity("node-b", "10.0.0.0/30")] : [],
    });

    it.each([
      ["that was claimed long ago", OLD],
      ["whose claim has no time", undefined],
      ["that was claimed 60 s ago", "2026-08-22T13:32:20Z"],
    ])("%s changes hands when there is no other", async (_title, since) => {
      const cluster = await Cluster.create(setup(since));
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/30"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/30 confirmed"]);
    });

    it("is left to it for a minute, and lends meanwhile when it may", async () => {
      const cluster = await Cluster.create(setup("2026-08-22T13:32:21Z"));
      expect(await cluster.assign("node-a", "c1")).toEqual([]);
      await cluster.configure({ strictAffinity: false });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/30"]);
      expect(await cluster.affinities()).toEqual(["node-b 10.0.0.0/30 confirmed"]);
    });

    it("without affinity object is not taken away (recording other-node-empty-no-affinity)", async () => {
      const cluster = await Cluster.create(setup(OLD, false));
      expect(await cluster.assign("node-a", "c1")).toEqual([]);
    });

    it("is not taken away when it is used at the last moment", async () => {
      const cluster = await Cluster.create(setup(OLD));
      cluster.before("get affinity", () => useBlock(cluster));
      expect(await cluster.assign("node-a", "c1")).toEqual([]);
      expect(await cluster.affinities()).toEqual(["node-b 10.0.0.0/30 confirmed"]);
      expect((await cluster.block("10.0.0.0/30"))?.affinity).toEqual(host("node-b"));
    });

    it("is not taken away when it was used and given back since it was listed: somebody works with it", async () => {
      const cluster = await Cluster.create(setup(OLD));
      cluster.before("get affinity", async () => {
        await useBlock(cluster);
        const sequenceNumber = ((await cluster.block("10.0.0.0/30"))?.sequenceNumber ?? 0n) + 1n;
        const given = emptyBlock("10.0.0.0/30", 4, { affinity: host("node-b"), sequenceNumber });
        await change(cluster.datastore.blocks, "10.0.0.0/30", given);
      });
      expect(await cluster.assign("node-a", "c1")).toEqual([]);
      expect(await cluster.affinities()).toEqual(["node-b 10.0.0.0/30 confirmed"]);
    });

    it("has its mark taken back when it is used after it was marked", async () => {
      const cluster = await Cluster.create(setup(OLD));
      cluster.before("delete block 10-0-0-0-30", () => useBlock(cluster));
      expect(await cluster.assign("node-a", "c1")).toEqual([]);
      expect(await cluster.affinities()).toEqual(["node-b 10.0.0.0/30 confirmed"]);
    });
  });

  describe("an empty block of nobody", () => {
    it("is made new when there is no other", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/30": { blockSize: 30 } },
        configuration: { strictAffinity: true },
        blocks: [emptyBlock("10.0.0.0/30", 4)],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/30"]);
      expect((await cluster.block("10.0.0.0/30"))?.affinity).toEqual(host("node-a"));
    });
  });

  describe("borrowing", () => {
    it("takes from the blocks of the pool in the host's order, whoever owns them", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/28": { blockSize: 30 } },
        blocks: ["10.0.0.0/30", "10.0.0.4/30", "10.0.0.8/30", "10.0.0.12/30"].map(busy),
      });
      const order = await cluster.assign("node-a", "c1", 12);
      expect(order.filter((_, index) => index % 3 === 0)).toEqual(["10.0.0.9/30", "10.0.0.13/30", "10.0.0.1/30", "10.0.0.5/30"]);
      expect(await cluster.affinities()).toEqual([]);
    });

    it("R3: reads a few blocks, then all of them at once, and takes from what it has listed", async () => {
      const full = (cidr: string) => ({ ...busy(cidr), allocations: [0, 0, 0, 0], unallocated: [] });
      const cidrs = Array.from({ length: 8 }, (_, index) => `10.0.0.${4 * index}/30`);
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/27": { blockSize: 30 } },
        blocks: cidrs.map((cidr) => (cidr === "10.0.0.4/30" ? busy(cidr) : full(cidr))),
      });
      await cluster.assign("node-a", "c1");
      const reads = cluster.calls.filter((call) => /^(get|list) block/.test(call) && !call.includes("room"));
      expect(reads.slice(3)).toEqual(["list block"]);
    });

    it("ends when the blocks are full", async () => {
      const cluster = await Cluster.create({ pools: POOL, blocks: BOTH.map(busy) });
      const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 10 });
      expect(ipv4?.addresses).toHaveLength(6);
      expect(ipv4?.messages).toEqual(["No IPs available in pools: [10.0.0.0/29]"]);
    });
  });
});
