import { Cluster, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { emptyBlock, owned, sampleAffinity } from "../../../support/samples.ts";

const OWN = emptyBlock("10.0.0.0/26", 64, { affinity: host("node-a"), sequenceNumber: 1000n });
const OTHERS = emptyBlock("10.0.0.0/26", 64, { affinity: host("node-b") });

describe("assignment of a given address (AssignIP table)", () => {
  it("makes the block when it is missing, and gives the address alone", async () => {
    const cluster = await Cluster.create();
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9")).toBe("10.0.0.9/32");
    expect(await cluster.affinities()).toEqual(["node-a 10.0.0.0/26 confirmed"]);
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
    expect((await cluster.block("10.0.0.0/26"))?.unallocated).not.toContain(9);
  });

  it("takes the ordinal from wherever it is in the queue, and records the number of the block before", async () => {
    const cluster = await Cluster.create({ blocks: [OWN], affinities: [sampleAffinity("node-a", OWN.cidr)] });
    await cluster.assignIp("node-a", "c1", "10.0.0.9");
    const block = await cluster.block(OWN.cidr);
    expect(block?.unallocated.slice(7, 11)).toEqual([7, 8, 10, 11]);
    expect(block?.sequenceNumberForAllocation).toEqual({ 9: 1000n });
    expect(block?.sequenceNumber).toBe(1001n);
  });

  it.each([
    ["IPv6", "fd00::9", "fd00::9/128"],
    ["the first of its block", "10.0.0.0", "10.0.0.0/32"],
    ["the last of its pool", "10.0.0.255", "10.0.0.255/32"],
  ])("gives %s", async (_title, address, expected) => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
    expect(await cluster.assignIp("node-a", "c1", address)).toBe(expected);
  });

  it("refuses an address outside the pools, and inside a disabled one, with the newline that callers know", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": { disabled: true } } });
    const text = "The provided IP address is not in a configured pool\n";
    await expect(cluster.assignIp("node-a", "c1", "10.9.0.1")).rejects.toMatchObject({ word: "address-outside-pools", message: text });
    await expect(cluster.assignIp("node-a", "c1", "10.0.0.1")).rejects.toMatchObject({ message: text });
  });

  it("refuses an address that is taken, by the same handle too", async () => {
    const cluster = await Cluster.create();
    await cluster.assignIp("node-a", "c1", "10.0.0.9");
    const text = "resource already exists: 10.0.0.9 with error: Address already assigned in block";
    for (const handle of ["c1", "c2"]) {
      await expect(cluster.assignIp("node-a", handle, "10.0.0.9")).rejects.toMatchObject({ word: "address-taken", message: text });
    }
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
  });

  it("refuses an address in cooldown, and gives it afterwards", async () => {
    const cluster = await Cluster.create({ configuration: { ipCooldownSeconds: 60 } });
    await cluster.assignIp("node-a", "c1", "10.0.0.9");
    await cluster.allocator.releaseByHandle("c1");
    await expect(cluster.assignIp("node-a", "c2", "10.0.0.9")).rejects.toThrow("Address already assigned in block");
    cluster.nowMs += 62_000;
    expect(await cluster.assignIp("node-a", "c2", "10.0.0.9")).toBe("10.0.0.9/32");
  });

  it("asks neither selectors, nor mode, nor reservations, nor the block limit, nor leave to claim", async () => {
    const cluster = await Cluster.create({
      pools: { "10.0.0.0/24": { nodeSelector: "zone == 'x'", assignmentMode: "Manual" } },
      configuration: { maxBlocksPerHost: 1, strictAffinity: true, autoAllocateBlocks: false },
      reserved: ["10.0.0.0/24"],
      ...owned("node-a", ["10.0.0.64/26"]),
    });
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9", { use: "Workload" })).toBe("10.0.0.9/32");
  });
});

describe("uses of a pool", () => {
  const pools = { "10.0.0.0/24": { allowedUses: ["Workload"] }, "10.1.0.0/24": {} };

  it("must allow the use that is given", async () => {
    const cluster = await Cluster.create({ pools });
    await expect(cluster.assignIp("node-a", "t", "10.0.0.9", { use: "Tunnel" })).rejects.toMatchObject({
      word: "pool-use",
      message: 'IP address 10.0.0.9 is in IP pool "p0", which is not allowed for use "Tunnel" (allowedUses: [Workload])',
    });
    expect(await cluster.assignIp("node-a", "t", "10.1.0.9", { use: "Tunnel" })).toBe("10.1.0.9/32");
  });

  it("do not matter when no use is given", async () => {
    const cluster = await Cluster.create({ pools });
    expect(await cluster.assignIp("node-a", "t", "10.0.0.9")).toBe("10.0.0.9/32");
  });
});

describe("another node's block", () => {
  it("lends the address", async () => {
    const cluster = await Cluster.create({ blocks: [OTHERS] });
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9")).toBe("10.0.0.9/32");
  });

  it("does not lend under strict affinity, nor does a block without owner", async () => {
    const configuration = { strictAffinity: true };
    const others = await Cluster.create({ blocks: [OTHERS], configuration });
    await expect(others.assignIp("node-a", "c1", "10.0.0.9")).rejects.toThrow(/^Block host affinity does not match$/);
    const nobodys = await Cluster.create({ blocks: [emptyBlock("10.0.0.0/26", 64)], configuration });
    await expect(nobodys.assignIp("node-a", "c1", "10.0.0.9")).rejects.toThrow(
      /^Attempt to assign from block 10\.0\.0\.0\/26 with no affinity$/,
    );
  });

  it("that comes into being while we claim it lends the address all the same", async () => {
    const cluster = await Cluster.create();
    cluster.before("create block 10-0-0-0-26", () => cluster.datastore.blocks.create(OTHERS.cidr, OTHERS));
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9")).toBe("10.0.0.9/32");
    // The affinity that was ours by mistake is gone.
    expect(await cluster.affinities()).toEqual([]);
    expect((await cluster.block("10.0.0.0/26"))?.affinity).toEqual(host("node-b"));
  });
});

describe("a handle with a limit of one", () => {
  const limit = { perHandleLimit: 1 };

  it("gets its address again, and no other", async () => {
    const cluster = await Cluster.create();
    await cluster.assignIp("node-a", "vm", "10.0.0.9", limit);
    expect(await cluster.assignIp("node-a", "vm", "10.0.0.9", limit)).toBe("10.0.0.9/32");
    await expect(cluster.assignIp("node-a", "vm", "10.0.0.10", limit)).rejects.toMatchObject({
      word: "handle-limit",
      message: "handle vm already has IP(s) allocated, cannot assign additional IP 10.0.0.10",
    });
    expect(await cluster.handles()).toEqual({ vm: { "10.0.0.0/26": 1 } });
  });

  it("may have one of each family", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
    await cluster.assignIp("node-a", "vm", "10.0.0.9", limit);
    expect(await cluster.assignIp("node-a", "vm", "fd00::9", limit)).toBe("fd00::9/128");
  });

  it("is not held up by the count of an assignment that died", async () => {
    const cluster = await Cluster.create({ handles: { vm: { "10.0.0.64/26": 1 } } });
    expect(await cluster.assignIp("node-a", "vm", "10.0.0.9", limit)).toBe("10.0.0.9/32");
    expect(await cluster.handles()).toEqual({ vm: { "10.0.0.0/26": 1 } });
  });
});

describe("a write that is lost", () => {
  const cluster = fresh(() => Cluster.create({ blocks: [OWN], affinities: [sampleAffinity("node-a", OWN.cidr)] }));

  it("by conflict leaves the count of the handle as it should be", async () => {
    let conflicts = 3;
    cluster.fateOf = (call) => (call.startsWith("update block") && conflicts-- > 0 ? "conflict" : "proceed");
    await cluster.assignIp("node-a", "c1", "10.0.0.9");
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
  });

  it("by conflict for ever ends after a hundred tries, with nothing left behind", async () => {
    cluster.answers("update block", "conflict");
    await expect(cluster.assignIp("node-a", "c1", "10.0.0.9")).rejects.toMatchObject({
      word: "datastore-contention",
      message: "Max retries hit - excessive concurrent IPAM requests (block 10.0.0.0/26, 100 tries)",
    });
    expect(cluster.calls.filter((call) => call.startsWith("update block"))).toHaveLength(100);
    expect(await cluster.handles()).toEqual({});
  });

  it("or only seems to be is found to have been made", async () => {
    cluster.answers("update block", "answer-lost");
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9")).toBe("10.0.0.9/32");
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
  });

  it("and that somebody else wrote over before it was repeated is found to have been made", async () => {
    let isFirst = true;
    cluster.fateOf = (call) => {
      const isOvertaken = isFirst && call.startsWith("update block");
      if (isOvertaken) isFirst = false;
      return isOvertaken ? "overtaken" : "proceed";
    };
    expect(await cluster.assignIp("node-a", "c1", "10.0.0.9")).toBe("10.0.0.9/32");
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.0/26": 1 } });
  });

  it("without anybody knowing is reported, and DEL finds it", async () => {
    cluster.answers("update block", "unavailable");
    await expect(cluster.assignIp("node-a", "c1", "10.0.0.9")).rejects.toMatchObject({ failure: "unavailable" });
    cluster.fateOf = undefined;
    expect(await cluster.allocator.releaseByHandle("c1")).toEqual({ found: true, released: [] });
    expect(await cluster.handles()).toEqual({});
  });
});

describe("a time limit", () => {
  it("ends the tries, with its own reason", async () => {
    const cluster = await Cluster.create({ blocks: [OWN] });
    const controller = new AbortController();
    cluster.fateOf = (call) => {
      if (!call.startsWith("update block")) return "proceed";
      controller.abort(new Error("90 s are over"));
      return "conflict";
    };
    await expect(cluster.assignIp("node-a", "c1", "10.0.0.9", {}, { signal: controller.signal })).rejects.toThrow("90 s are over");
    expect(await cluster.handles()).toEqual({});
  });
});
