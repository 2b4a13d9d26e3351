import { shortageText } from "../../../../ipam-plugin/allocator/assign.ts";
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { addressesOf, Cluster, host, inEachStore } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { fullBlock, owned, sampleAffinity } from "../../../support/samples.ts";
import { change } from "../../../support/stored.ts";
import { phrases } from "../../../support/words.ts";

function distinct(addresses: readonly string[]): number {
  return new Set(addresses).size;
}

inEachStore((findsRoom) => {
  describe("automatic assignment", () => {
    it("gives an address with its block's prefix length, and records who has it", async () => {
      const cluster = await Cluster.create();
      expect(await cluster.assign("node-a", "net1.c1")).toEqual(["10.0.0.128/26"]);
      const block = await cluster.block("10.0.0.128/26");
      expect(block).toMatchObject({
        affinity: host("node-a"),
        affinityClaimTime: "2026-08-22T13:33:20Z",
        attributes: [{ handleId: "net1.c1", activeOwner: { node: "node-a" } }],
      });
      expect(block?.allocations[0]).toBe(0);
      // The number of the allocation is the block's before the write.
      expect(block?.sequenceNumber).toBe((block?.sequenceNumberForAllocation[0] ?? 0n) + 1n);
      expect(await cluster.handles()).toEqual({ "net1.c1": { "10.0.0.128/26": 1 } });
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    });

    it("gives the next address of the same block next time", async () => {
      const cluster = await Cluster.create();
      expect([await cluster.assign("node-a", "c1"), await cluster.assign("node-a", "c2")]).toEqual([["10.0.0.128/26"], ["10.0.0.129/26"]]);
    });

    it("gives both families under one handle", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
      const { ipv4, ipv6 } = await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
      expect([...addressesOf(ipv4), ...addressesOf(ipv6)]).toEqual(["10.0.0.128/26", "fd00::e80/122"]);
      expect(await cluster.handles()).toEqual({ c1: { "10.0.0.128/26": 1, "fd00::e80/122": 1 } });
    });

    it("leaves IPv6 out after an error of IPv4, and keeps IPv4 after one of IPv6", async () => {
      const only6 = await Cluster.create({ pools: { "fd00::/116": {} } });
      const first = await only6.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
      expect(first.ipv4?.error?.message).toBe("cannot find a qualified ippool");
      expect(first.ipv6).toBeUndefined();

      const only4 = await Cluster.create({ pools: { "10.0.0.0/24": {} } });
      const second = await only4.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
      expect(addressesOf(second.ipv4)).toHaveLength(1);
      expect(second.ipv6?.error?.message).toBe("cannot find a qualified ippool");
      await only4.allocator.giveBack(second, "c1");
      expect(await only4.handles()).toEqual({});
      expect((await only4.block("10.0.0.128/26"))?.attributes).toEqual([]);
    });

    it("gives back only what it took itself", async () => {
      const cluster = await Cluster.create();
      await cluster.assign("node-a", "c1");
      const again = await cluster.autoAssign("node-a", "c1");
      await cluster.allocator.giveBack(again, "c1");
      expect(await cluster.handles()).toEqual({ c1: { "10.0.0.128/26": 1 } });
      expect((await cluster.block("10.0.0.128/26"))?.allocations.slice(0, 3)).toEqual([0, null, null]);
      await cluster.allocator.giveBack(again, "c1");
      expect(await cluster.handles()).toEqual({ c1: { "10.0.0.128/26": 1 } });
    });
  });

  describe("amounts (AutoAssign table)", () => {
    it.each([
      ["10.0.0.0/24", 26, 256],
      ["10.0.0.0/24", 24, 256],
      ["10.0.0.0/24", 30, 256],
      ["10.0.0.0/24", 32, 256],
      ["10.0.0.0/20", 20, 300],
      ["10.0.0.0/26", 29, 64],
    ])("of pool %s with blocks of /%p: all %p are given, each once", async (cidr, blockSize, count) => {
      const cluster = await Cluster.create({ pools: { [cidr]: { blockSize } }, configuration: { maxBlocksPerHost: 1000 } });
      expect(distinct(await cluster.assign("node-a", "c1", count))).toBe(count);
    });

    it.each([
      ["fd00::/120", 122, 256],
      ["fd00::/120", 128, 256],
      ["fd00::/64", 116, 300],
      ["fd00::/64", 122, 300],
    ])("of pool %s with blocks of /%p: all %p are given, each once", async (cidr, blockSize, count) => {
      const cluster = await Cluster.create({ pools: { [cidr]: { blockSize } }, configuration: { maxBlocksPerHost: 1000 } });
      const { ipv6 } = await cluster.autoAssign("node-a", "c1", { count4: 0, count6: count });
      expect(distinct(addressesOf(ipv6))).toBe(count);
    });

    it("beyond the pool: what there is, and a message that names the pool", async () => {
      const cluster = await Cluster.create();
      const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 257 });
      expect(ipv4?.addresses).toHaveLength(256);
      expect(ipv4?.error).toBeUndefined();
      expect(ipv4?.messages).toEqual(["No IPs available in pools: [10.0.0.0/24]"]);
    });

    it("beyond two pools: both are named, in the order they were tried", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/30": { blockSize: 30 }, "10.1.0.0/30": { blockSize: 30 } } });
      const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 9 });
      expect(ipv4?.addresses).toHaveLength(8);
      expect(ipv4?.messages).toEqual(["No IPs available in pools: [10.0.0.0/30 10.1.0.0/30]"]);
    });

    it("beyond the block limit: what there is, with the error and the message", async () => {
      const cluster = await Cluster.create({ configuration: { maxBlocksPerHost: 1 } });
      const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 256 });
      expect(ipv4?.addresses).toHaveLength(64);
      expect(ipv4?.error).toMatchObject({ word: "block-limit", message: "cannot allocate new block due to per host block limit" });
      expect(ipv4?.messages).toEqual(["Need to allocate an IPAM block but could not - limit of 1 blocks reached for this node"]);
    });

    it("obey the more restrictive of the configuration's and the request's block limit", async () => {
      const cluster = await Cluster.create({ configuration: { maxBlocksPerHost: 2, strictAffinity: true } });
      expect((await cluster.autoAssign("node-a", "c1", { count4: 256, perRequestBlockLimit: 3 })).ipv4?.addresses).toHaveLength(128);
      expect((await cluster.autoAssign("node-b", "c2", { count4: 256, perRequestBlockLimit: 1 })).ipv4?.addresses).toHaveLength(64);
    });

    it("end at 20 blocks when no limit is set", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": { blockSize: 30 } } });
      const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 100 });
      expect(ipv4?.addresses).toHaveLength(80);
      expect(ipv4?.messages).toEqual(["Need to allocate an IPAM block but could not - limit of 20 blocks reached for this node"]);
    });

    it("are borrowed when the host's blocks and the free ones are used up", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/25": {} } });
      await cluster.assign("node-a", "a1", 1);
      await cluster.assign("node-b", "b1", 1);
      const addresses = await cluster.assign("node-a", "a2", 64);
      const own = (await cluster.blocks()).find(({ affinity }) => affinity?.name === "node-a");
      expect(distinct(addresses)).toBe(64);
      expect(own?.unallocated).toEqual([]);
      const other = (await cluster.blocks()).find(({ affinity }) => affinity?.name === "node-b");
      expect(other?.allocations.filter((index) => index !== null)).toHaveLength(2);
    });

    it("are not borrowed under strict affinity, and the message says so", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/26": {} }, configuration: { strictAffinity: true } });
      await cluster.assign("node-a", "a1", 1);
      const { ipv4 } = await cluster.autoAssign("node-b", "b1");
      expect(ipv4).toMatchObject({ addresses: [], messages: ["No more free affine blocks and strict affinity enabled"] });
      expect(ipv4?.error).toBeUndefined();
      expect((await cluster.autoAssign("node-a", "a2", { count4: 256 })).ipv4?.addresses).toHaveLength(63);
    });

    it("follow strict affinity as it is switched on and off", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/28": { blockSize: 28 } } });
      const count = async (node: string, handle: string) => (await cluster.autoAssign(node, handle)).ipv4?.addresses.length;
      expect([await count("node-a", "1"), await count("node-b", "2")]).toEqual([1, 1]);
      await cluster.configure({ strictAffinity: true });
      expect([await count("node-a", "3"), await count("node-b", "4")]).toEqual([1, 0]);
      await cluster.configure({ strictAffinity: false });
      expect([await count("node-a", "5"), await count("node-b", "6")]).toEqual([1, 1]);
    });

    it("reach MaxBlocksPerHost and go on when it is raised", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/28": { blockSize: 30 } },
        configuration: { strictAffinity: true, maxBlocksPerHost: 2 },
      });
      expect(await cluster.assign("node-a", "c1", 8)).toHaveLength(8);
      await expect(cluster.assign("node-a", "c2")).rejects.toMatchObject({ word: "block-limit" });
      await cluster.configure({ maxBlocksPerHost: 3 });
      expect(await cluster.assign("node-a", "c2")).toHaveLength(1);
    });

    it("leave out what is reserved", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/26": {} },
        reserved: ["10.0.0.1/32", "10.0.0.32/30", "10.0.0.17/32", "192.168.0.0/16"],
      });
      expect(await cluster.assign("node-a", "c1", 64)).toHaveLength(58);
    });
  });

  describe("which pool", () => {
    it("stays with the requested one, and does not borrow from another", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {} } });
      const wish = { ipv4Pools: ["10.1.0.0/24"] };
      const [first] = await cluster.assign("node-a", "c1", 1, wish);
      const [second] = await cluster.assign("node-a", "c2", 1, wish);
      expect(first).toMatch(/^10\.1\.0\./);
      expect(second?.split(".").slice(0, 3)).toEqual(first?.split(".").slice(0, 3));
      expect(await cluster.assign("node-a", "c3", 254, wish)).toHaveLength(254);
      expect(await cluster.assign("node-a", "c4", 1, wish)).toEqual([]);
    });

    it("is the first of several requested ones, then the next", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {} } });
      const wish = { ipv4Pools: ["10.1.0.0/24", "10.0.0.0/24"] };
      const first = await cluster.assign("node-a", "c1", 300, wish);
      expect(first.filter((address) => address.startsWith("10.1."))).toHaveLength(256);
      expect(await cluster.assign("node-a", "c2", 300, wish)).toHaveLength(212);
    });

    it("is the one that selects the node, to its last address", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/24": { nodeSelector: "foo == 'bar'" }, "10.1.0.0/24": { nodeSelector: "foo != 'bar'" } },
        nodes: { "node-a": { foo: "bar" } },
      });
      const addresses = await cluster.assign("node-a", "c1", 300);
      expect(addresses).toHaveLength(256);
      expect(addresses.every((address) => address.startsWith("10.0.0."))).toBe(true);
    });

    it("is another after the first was deleted", async () => {
      const cluster = await Cluster.create();
      await cluster.assign("node-a", "c1");
      await cluster.removePool("p0");
      await cluster.addPool("new", "10.9.0.0/24");
      expect((await cluster.assign("node-a", "c2"))[0]).toMatch(/^10\.9\.0\./);
    });

    it("is another after the first was disabled", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {} } });
      await cluster.assign("node-a", "c1");
      await cluster.changePool("p0", { disabled: true });
      expect((await cluster.assign("node-a", "c2"))[0]).toMatch(/^10\.1\.0\./);
    });
  });

  describe("blocks of pools that no longer select the node", () => {
    const nodes = { "node-a": { zone: "x" }, "node-b": { zone: "y" } };

    it("are given up by the next assignment when they are empty", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/26": { nodeSelector: "zone == 'x'" } }, nodes });
      await cluster.assign("node-a", "c1");
      await cluster.allocator.releaseByHandle("c1");
      await cluster.changePool("p0", { nodeSelector: "zone == 'y'" });
      await cluster.addPool("new", "10.9.0.0/26");
      expect(await cluster.assign("node-a", "c2")).toEqual(["10.9.0.0/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.9.0.0/26 confirmed"]);
      expect(await cluster.block("10.0.0.0/26")).toBeUndefined();
    });

    it("are kept while they have addresses, and go with the last, by address or by handle", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/26": { nodeSelector: "zone == 'x'" } }, nodes });
      await cluster.assign("node-a", "c1");
      const [second] = (await cluster.autoAssign("node-a", "c2")).ipv4?.addresses ?? [];
      await cluster.changePool("p0", { nodeSelector: "zone == 'y'" });
      await cluster.allocator.releaseByHandle("c1");
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/26 confirmed"]);
      if (second === undefined) throw new Error("no second address");
      await cluster.allocator.releaseIps([{ address: second.prefix.address }]);
      expect(await cluster.affinities()).toEqual([]);
      expect(await cluster.blocks()).toEqual([]);
    });

    it("are refused to the node that had them, and lend to the one that is selected now", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/30": { blockSize: 30, nodeSelector: "zone == 'x'" } }, nodes });
      await cluster.assign("node-a", "c1", 3);
      await cluster.changePool("p0", { nodeSelector: "zone == 'y'" });
      await expect(cluster.assign("node-a", "c2")).rejects.toThrow(/^no configured Calico pools for node node-a$/);
      expect(await cluster.assign("node-b", "c3")).toEqual(["10.0.0.3/30"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/30 confirmed"]);
    });

    it.each([
      ["another pool is requested", { ipv4Pools: ["10.1.0.0/26"] }, {}],
      ["their pool does not allow the use", {}, { allowedUses: ["Tunnel"] }],
    ])("are kept, though empty, when only %s", async (_title, wish, change) => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/26": {}, "10.1.0.0/26": {} } });
      await cluster.assign("node-a", "c1");
      await cluster.allocator.releaseByHandle("c1");
      await cluster.changePool("p0", change);
      expect(await cluster.assign("node-a", "c2", 1, wish)).toEqual(["10.1.0.0/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/26 confirmed", "node-a 10.1.0.0/26 confirmed"]);
    });
  });

  describe("the host's own blocks", () => {
    it("are used in the order of their names, full and reserved ones skipped, before one is claimed", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/28": { blockSize: 30 } },
        reserved: ["10.0.0.0/30"],
        ...owned("node-a", ["10.0.0.0/30", "10.0.0.4/30"]),
      });
      expect(await cluster.assign("node-a", "c1", 4)).toEqual(["10.0.0.4/30", "10.0.0.5/30", "10.0.0.6/30", "10.0.0.7/30"]);
      // Index 2 of 4 is where node-a begins.
      expect(await cluster.assign("node-a", "c2")).toEqual(["10.0.0.8/30"]);
    });

    it("are not claimed at all when that is switched off, and no other is borrowed from", async () => {
      const cluster = await Cluster.create({ configuration: { autoAllocateBlocks: false } });
      await expect(cluster.assign("node-a", "c1")).rejects.toThrow("failed to find or claim a block");
      expect(await cluster.affinities()).toEqual([]);
    });

    it("that another host has taken since they were read give nothing", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/29": { blockSize: 30 } },
        configuration: { strictAffinity: true },
        ...owned("node-a", ["10.0.0.0/30"]),
      });
      const { blocks } = cluster.datastore;
      cluster.before("update block 10-0-0-0-30", () => change(blocks, "10.0.0.0/30", { affinity: host("node-b") }));
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.4/30"]);
      expect(await cluster.handles()).toEqual({ c1: { "10.0.0.4/30": 1 } });
    });

    it("that cannot be written do not keep the others from being used (recording sequence-max)", async () => {
      const cluster = await Cluster.create({
        pools: { "10.0.0.0/29": { blockSize: 30 } },
        ...owned("node-a", ["10.0.0.0/30", "10.0.0.4/30"]),
      });
      cluster.answers("update block 10-0-0-0-30", new DatastoreError("invalid", "sequenceNumber is no integer"));
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.4/30"]);
      expect(await cluster.handles()).toEqual({ c1: { "10.0.0.4/30": 1 } });
    });
  });

  describe("the order of addresses", () => {
    it("goes round the block before an address is used again", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/30": { blockSize: 30 } } });
      const seen: string[] = [];
      for (let round = 0; round < 5; round++) {
        seen.push(...(await cluster.assign("node-a", "c1")));
        await cluster.allocator.releaseByHandle("c1");
      }
      expect(seen.slice(0, 4)).toEqual(["10.0.0.0/30", "10.0.0.1/30", "10.0.0.2/30", "10.0.0.3/30"]);
      expect(seen[4]).toBe(seen[0]);
    });

    it("raises the number of an ordinal by two for each release and assignment", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/32": { blockSize: 32 } } });
      const numbers: bigint[] = [];
      for (let round = 0; round < 10; round++) {
        const [taken] = (await cluster.autoAssign("node-a", "c1")).ipv4?.addresses ?? [];
        if (taken === undefined) throw new Error("nothing was assigned");
        numbers.push(taken.sequenceNumber);
        const { address } = taken.prefix;
        const stale = await cluster.allocator.releaseIps([{ address, handle: "c1", sequenceNumber: taken.sequenceNumber - 1n }]);
        expect(stale.error).toMatchObject({ word: "release-mismatch" });
        expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/32": 1 } });
        expect(
          (await cluster.allocator.releaseIps([{ address, handle: "c1", sequenceNumber: taken.sequenceNumber }])).error,
        ).toBeUndefined();
      }
      expect(numbers.slice(1).map((number, index) => number - (numbers[index] ?? 0n))).toEqual(Array.from({ length: 9 }, () => 2n));
    });
  });

  describe("a handle with a limit", () => {
    const limited = { perHandleLimit: 1 };

    it("of one gets the same addresses again, both families, with full length", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
      const both = { count4: 1, count6: 1, ...limited };
      const first = await cluster.autoAssign("node-a", "vm", both);
      const second = await cluster.autoAssign("node-b", "vm", both);
      expect([...addressesOf(second.ipv4), ...addressesOf(second.ipv6)]).toEqual(["10.0.0.128/32", "fd00::e80/128"]);
      expect(second.ipv4?.addresses[0]).toMatchObject({ isReused: true, sequenceNumber: first.ipv4?.addresses[0]?.sequenceNumber });
      await cluster.allocator.giveBack(second, "vm");
      expect(await cluster.handles()).toEqual({ vm: { "10.0.0.128/26": 1, "fd00::e80/122": 1 } });
    });

    it("of two gets two, then the same again", async () => {
      const cluster = await Cluster.create();
      const assign = () => cluster.assign("node-a", "vm", 1, { perHandleLimit: 2 });
      expect([await assign(), await assign(), await assign()]).toEqual([["10.0.0.128/26"], ["10.0.0.129/26"], ["10.0.0.128/32"]]);
    });

    it("is not held up by the count of an assignment that died", async () => {
      const cluster = await Cluster.create({ handles: { vm: { "10.0.0.64/26": 1 } } });
      expect(await cluster.assign("node-a", "vm", 1, limited)).toEqual(["10.0.0.128/26"]);
      expect(await cluster.handles()).toEqual({ vm: { "10.0.0.128/26": 1 } });
    });

    it("keeps what it has although its pool is gone", async () => {
      const cluster = await Cluster.create();
      await cluster.assign("node-a", "vm", 1, limited);
      await cluster.removePool("p0");
      expect(await cluster.assign("node-a", "vm", 1, limited)).toEqual(["10.0.0.128/32"]);
    });
  });

  describe("the text of a shortage", () => {
    const short = { family: 4, requested: 3, addresses: [], messages: [] } as const;

    it.each([
      ["Assigned 0 out of 3 requested IPv4 addresses", short],
      ["Assigned 0 out of 3 requested IPv6 addresses", { ...short, family: 6 as const }],
      ["Assigned 0 out of 3 requested IPv4 addresses; one", { ...short, messages: ["one"] }],
      ["Assigned 0 out of 3 requested IPv4 addresses; one; two", { ...short, messages: ["one", "two"] }],
    ])("%s", (text, assignment) => {
      expect(shortageText(assignment)).toBe(text);
    });
  });

  describe("long and similar host names", () => {
    it("get blocks of their own, and find exactly these again", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": { blockSize: 30 }, "fd00::/112": {} } });
      const names = [`${"n".repeat(251)}a`, `${"n".repeat(251)}b`, "n".repeat(100)];
      for (const name of names) {
        const { ipv4, ipv6 } = await cluster.autoAssign(name, `c-${name}`, { count4: 1, count6: 1 });
        expect([ipv4?.addresses.length, ipv6?.addresses.length]).toEqual([1, 1]);
      }
      for (const name of names) {
        const owned = await cluster.datastore.affinities.listByOwner(host(name), 4);
        expect(owned.map(({ value }) => value.owner.name)).toEqual([name]);
      }
    });
  });

  describe("the cost of an address", () => {
    const cluster = fresh(() => Cluster.create());

    it("of a block that the host has: one round of reads and two writes", async () => {
      await cluster.assign("node-a", "c1");
      cluster.calls.length = 0;
      await cluster.assign("node-a", "c2");
      const ownBlock = findsRoom
        ? ["get affinity host/node-a/4/10-0-0-128-26", "list block with room host/node-a/4"]
        : ["get block 10-0-0-128-26", "list affinity host/node-a/4/"];
      expect([...cluster.calls].sort()).toEqual(
        [...ownBlock, "create handle c2", "list pool", "list reservation", "update block 10-0-0-128-26"].sort(),
      );
    });

    it("does not grow with the full blocks of the host, where the store finds the others", async () => {
      if (!findsRoom) return;
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": { blockSize: 30 } }, configuration: { maxBlocksPerHost: 64 } });
      await cluster.assign("node-a", "c1", 101);
      cluster.calls.length = 0;
      await cluster.assign("node-a", "c2");
      expect(cluster.calls).toHaveLength(6);
      await cluster.assign("node-a", "c3", 2);
      cluster.calls.length = 0;
      await cluster.assign("node-a", "c4");
      // A new block is claimed: eight of the full ones are looked at, and where it is to be.
      expect(cluster.calls.filter((call) => call.startsWith("get block"))).toHaveLength(9);
      expect(cluster.calls).not.toContain("list block");
    });

    it("of both families: the lists are read once", async () => {
      const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
      await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
      cluster.calls.length = 0;
      await cluster.autoAssign("node-a", "c2", { count4: 1, count6: 1 });
      expect(cluster.calls.filter((call) => /^(list|get)/.test(call))).toHaveLength(6);
      expect(cluster.calls.filter((call) => /^(create|update)/.test(call))).toHaveLength(4);
    });

    it("of a first block: it is looked at alone, nothing is read twice", async () => {
      await cluster.assign("node-a", "c1");
      const calls = cluster.calls.filter((call) => call !== "list block with room host/node-a/4");
      expect(calls.sort()).toEqual(phrases`
        create affinity host/node-a/4/10-0-0-128-26, create block 10-0-0-128-26, create handle c1,
        get block 10-0-0-128-26, get ipam-configuration default, list affinity, list affinity host/node-a/4/,
        list affinity unlabelled, list block cidrs,
        list pool, list reservation, update affinity host/node-a/4/10-0-0-128-26, update block 10-0-0-128-26
      `);
    });

    it("released: the handle, its block and the configuration are read, two writes", async () => {
      await cluster.assign("node-a", "c1");
      await cluster.assign("node-a", "c2");
      cluster.calls.length = 0;
      await cluster.allocator.releaseByHandle("c1");
      expect([...cluster.calls].sort()).toEqual(phrases`
        delete handle c1, get block 10-0-0-128-26, get handle c1, get ipam-configuration default, update block 10-0-0-128-26
      `);
    });

    it("that nobody has, released: one read", async () => {
      await cluster.allocator.releaseByHandle("c1");
      expect(cluster.calls).toEqual(["get handle c1"]);
    });

    it("in a pool of 2^58 blocks, most of them reserved: no walk over them", async () => {
      const cluster = await Cluster.create({
        pools: { "fd00::/64": {} },
        reserved: ["fd00::/65", "fd00::8000:0:0:0/66", "fd00::c000:0:0:0/67"],
      });
      const free = await cluster.autoAssign("node-a", "c1", { count6: 1 });
      expect(addressesOf(free.ipv6)[0]).toMatch(/^fd00::[ef]/);
    });
  });

  describe("a block", () => {
    it("that stands full does not stop the search", async () => {
      const cluster = await Cluster.create({
        blocks: [fullBlock("10.0.0.0/26", "node-a")],
        affinities: [sampleAffinity("node-a", "10.0.0.0/26")],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
    });
  });
});
