import { formatAddress } from "../../../../lib/addresses/address.ts";
import { address } from "../../../support/addresses.ts";
import { Cluster, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { heldBlock, sampleAffinity } from "../../../support/samples.ts";

const CIDR = "10.0.0.0/26";

/** A block of node-a in which the named handles hold one address each, from ordinal 0. */
function blockOf(...handles: string[]) {
  const attributes = handles.map((handleId, index) => ({ handleId, activeOwner: { node: "node-a", index: String(index) } }));
  return heldBlock(CIDR, attributes, { affinity: host("node-a"), sequenceNumber: 1000n });
}

describe("release by handle", () => {
  it("frees everything of the handle in all its blocks, and the handle with it", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
    await cluster.autoAssign("node-a", "c1", { count4: 2, count6: 1 });
    const { found, released } = await cluster.allocator.releaseByHandle("c1");
    expect(found).toBe(true);
    expect(released.map(formatAddress).sort()).toEqual(["10.0.0.128", "10.0.0.129", "fd00::e80"]);
    expect(await cluster.handles()).toEqual({});
    expect((await cluster.blocks()).map(({ attributes }) => attributes)).toEqual([[], []]);
  });

  it("of an unknown handle finds nothing, and says so", async () => {
    const cluster = await Cluster.create();
    expect(await cluster.allocator.releaseByHandle("c1")).toEqual({ found: false, released: [] });
  });

  it("M1: keeps, under its handle, what is another's", async () => {
    const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", CIDR)], blocks: [blockOf()] });
    await cluster.assign("node-a", "shop.web", 1, { attributes: { pod: "web" } });
    await cluster.assign("node-a", "shop.web", 1, { attributes: { pod: "db" } });
    const { released } = await cluster.allocator.releaseByHandle("shop.web", { isTheirs: ({ pod }) => pod === "web" });
    expect(released.map(formatAddress)).toEqual(["10.0.0.0"]);
    expect(await cluster.handles()).toEqual({ "shop.web": { [CIDR]: 1 } });
  });

  it("leaves other handles alone", async () => {
    const cluster = await Cluster.create({ blocks: [blockOf("c1", "c2")], handles: { c1: { [CIDR]: 1 }, c2: { [CIDR]: 1 } } });
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.handles()).toEqual({ c2: { [CIDR]: 1 } });
    expect((await cluster.block(CIDR))?.unallocated.at(-1)).toBe(0);
  });

  it("keeps addresses cold for the time configured", async () => {
    const cluster = await Cluster.create({
      configuration: { ipCooldownSeconds: 60 },
      blocks: [blockOf("c1", "c1")],
      handles: { c1: { [CIDR]: 2 } },
    });
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.block(CIDR)).toMatchObject({ attributes: [{ releasedAt: "2026-08-22T13:33:20Z" }], sequenceNumber: 1001n });
    expect((await cluster.block(CIDR))?.allocations.slice(0, 3)).toEqual([0, 0, null]);
    expect(await cluster.handles()).toEqual({});
  });

  it("deletes a block without owner with its last address", async () => {
    const { affinity: _, ...ownerless } = blockOf("c1");
    const cluster = await Cluster.create({ blocks: [ownerless], handles: { c1: { [CIDR]: 1 } } });
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.blocks()).toEqual([]);
  });

  it("keeps the owner's block, though empty", async () => {
    const cluster = await Cluster.create({
      blocks: [blockOf("c1")],
      handles: { c1: { [CIDR]: 1 } },
      affinities: [sampleAffinity("node-a", CIDR)],
    });
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.affinities()).toEqual([`node-a ${CIDR} confirmed`]);
  });

  it("by number frees that allocation only, and counts the rest", async () => {
    const cluster = await Cluster.create({ blocks: [blockOf("c1", "c1")], handles: { c1: { [CIDR]: 2 } } });
    const { released } = await cluster.allocator.releaseByHandle("c1", { sequenceNumbers: new Set([901n]) });
    expect(released.map(formatAddress)).toEqual(["10.0.0.1"]);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 } });
  });

  it("tries every block, whatever one of them does, and tells the first failure", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
    await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    cluster.answers("get block 10-", "unavailable");
    await expect(cluster.allocator.releaseByHandle("c1")).rejects.toMatchObject({ failure: "unavailable" });
    expect(await cluster.handles()).toEqual({ c1: { "10.0.0.128/26": 1 } });
    cluster.fateOf = undefined;
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.handles()).toEqual({});
  });
});

describe("a handle that counts wrongly is mended by its release", () => {
  it.each<[string, Readonly<Record<string, number>>, readonly string[]]>([
    ["too high (recording handle-count-high)", { [CIDR]: 3 }, ["c1"]],
    ["too low (recording handle-count-low)", { [CIDR]: 1 }, ["c1", "c1"]],
    ["without any address (recording handle-zero-in-block)", { [CIDR]: 1 }, ["other"]],
    ["for a block that is gone (recording handle-two-blocks-one-gone)", { [CIDR]: 1, "10.0.0.64/26": 1 }, ["c1"]],
    ["for nothing but a block that is gone (recording handle-no-block)", { "10.0.0.64/26": 1 }, ["other"]],
  ])("%s", async (_title, counts, holders) => {
    const cluster = await Cluster.create({ blocks: [blockOf(...holders)], handles: { c1: counts, other: { [CIDR]: 1 } } });
    await cluster.allocator.releaseByHandle("c1");
    expect(Object.keys(await cluster.handles())).toEqual(["other"]);
    expect((await cluster.block(CIDR))?.attributes.map(({ handleId }) => handleId)).toEqual(holders.filter((holder) => holder !== "c1"));
  });

  it("though another process is between counting and granting: that one starts over, and counts anew", async () => {
    const cluster = await Cluster.create({ blocks: [blockOf()], affinities: [sampleAffinity("node-a", CIDR)] });
    cluster.before("update block", async () => {
      cluster.fateOf = undefined;
      await cluster.allocator.releaseByHandle("c1");
    });
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.0/26"]);
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 } });
  });
});

describe("release by address", () => {
  const setup = { blocks: [blockOf("c1", "c2", "c2\r")], handles: { c1: { [CIDR]: 1 }, c2: { [CIDR]: 2 } } };
  const cluster = fresh(() => Cluster.create(setup));
  const first = { address: address("10.0.0.0") };

  it.each([
    ["without conditions", first],
    ["by the handle", { ...first, handle: "c1" }],
    ["by the number", { ...first, sequenceNumber: 900n }],
    ["by both", { ...first, handle: "c1", sequenceNumber: 900n }],
  ])("%s frees it (ReleaseOptions)", async (_title, option) => {
    expect(await cluster.allocator.releaseIps([option])).toEqual({ unallocated: [], done: [option] });
    expect(await cluster.handles()).toEqual({ c2: { [CIDR]: 2 } });
  });

  it.each([
    ["another handle", { ...first, handle: "c2" }, "bad handle"],
    ["another number", { ...first, sequenceNumber: 901n }, "bad sequence number"],
  ])("by %s frees nothing of the block", async (_title, option, problem) => {
    const { error, done } = await cluster.allocator.releaseIps([{ address: address("10.0.0.1") }, option]);
    expect(error).toMatchObject({ word: "release-mismatch", message: expect.stringContaining(problem) });
    expect(done).toEqual([]);
    expect((await cluster.block(CIDR))?.sequenceNumber).toBe(1000n);
  });

  it("knows a handle that was stored with a carriage return", async () => {
    const { error } = await cluster.allocator.releaseIps([{ address: address("10.0.0.2"), handle: "c2" }]);
    expect(error).toBeUndefined();
    expect(await cluster.handles()).toEqual({ c1: { [CIDR]: 1 }, c2: { [CIDR]: 1 } });
  });

  it.each([
    ["free", "10.0.0.9"],
    ["in a block that is missing", "10.0.0.200"],
    ["in no pool and no block", "192.168.0.1"],
  ])("of an address that is %s says so, and writes nothing", async (_title, text) => {
    expect(await cluster.allocator.releaseIps([{ address: address(text) }])).toMatchObject({ unallocated: [address(text)], done: [{}] });
    expect(cluster.calls.filter((call) => /^(create|update|delete)/.test(call))).toEqual([]);
  });

  it("of an address that is cooling says that it is free", async () => {
    const cluster = await Cluster.create({ ...setup, configuration: { ipCooldownSeconds: 60 } });
    const option = { ...first, handle: "c1", sequenceNumber: 900n };
    await cluster.allocator.releaseIps([option]);
    expect((await cluster.allocator.releaseIps([option])).unallocated).toEqual([first.address]);
    // While it cools its number is that of the release.
    expect((await cluster.block(CIDR))?.sequenceNumberForAllocation[0]).toBe(1000n);
  });

  it("finds the block of an address whose pool is disabled, or gone", async () => {
    const states: readonly Record<string, { disabled: boolean }>[] = [{ "10.0.0.0/24": { disabled: true } }, {}];
    for (const pools of states) {
      const cluster = await Cluster.create({ ...setup, pools });
      expect((await cluster.allocator.releaseIps([first])).unallocated).toEqual([]);
      expect((await cluster.block(CIDR))?.unallocated).toContain(0);
    }
  });

  it("of the same address twice in one call frees it once, and one assignment gets it", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/30": { blockSize: 30 } } });
    const [taken] = await cluster.assign("node-a", "c1", 4);
    const option = { address: address(taken?.slice(0, taken.indexOf("/")) ?? "") };
    expect(await cluster.allocator.releaseIps([option, option])).toEqual({ unallocated: [], done: [option] });
    expect(await cluster.assign("node-a", "c2")).toEqual([taken]);
    expect((await cluster.autoAssign("node-a", "c3")).ipv4).toMatchObject({ addresses: [] });
  });

  it("of a hundred addresses of four nodes in both families and a disabled pool frees all, and all handles", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "10.1.0.0/24": {}, "fd00::/112": {} } });
    const options: { address: ReturnType<typeof address>; handle: string; sequenceNumber: bigint }[] = [];
    for (let index = 0; index < 100; index++) {
      const handle = `c${index}`;
      const node = `node-${index % 4}`;
      const { ipv4, ipv6 } = await cluster.autoAssign(node, handle, { count4: index % 2, count6: 1 - (index % 2) });
      for (const { prefix, sequenceNumber } of [...(ipv4?.addresses ?? []), ...(ipv6?.addresses ?? [])]) {
        options.push({ address: prefix.address, handle, sequenceNumber });
      }
    }
    expect(options).toHaveLength(100);
    await cluster.changePool("p0", { disabled: true });
    cluster.calls.length = 0;
    expect(await cluster.allocator.releaseIps(options)).toMatchObject({ unallocated: [] });
    expect(await cluster.handles()).toEqual({});
    expect((await cluster.blocks()).flatMap(({ attributes }) => attributes)).toEqual([]);
    // All handles are listed once instead of a hundred being read.
    expect(cluster.calls.filter((call) => /handle/.test(call) && !call.startsWith("delete"))).toEqual(["list handle"]);
  });

  it("of both addresses of a handle writes the handle once", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {}, "fd00::/116": {} } });
    const { ipv4, ipv6 } = await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    cluster.calls.length = 0;
    await cluster.allocator.releaseIps(
      [...(ipv4?.addresses ?? []), ...(ipv6?.addresses ?? [])].map(({ prefix }) => ({ address: prefix.address })),
    );
    expect(cluster.calls.filter((call) => call.endsWith("handle c1"))).toEqual(["get handle c1", "delete handle c1"]);
    expect(await cluster.handles()).toEqual({});
  });

  it("of a block that was deleted and made anew refuses the old number", async () => {
    const cluster = await Cluster.create();
    const request = { address: address("10.0.0.9"), handle: "c1", attributes: { node: "node-a" }, owner: host("node-a") };
    const before = await cluster.allocator.assignIp(request);
    await cluster.allocator.releaseAffinity(CIDR, host("node-a"), { mustBeEmpty: false });
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.blocks()).toEqual([]);
    await cluster.allocator.assignIp(request);
    const { error } = await cluster.allocator.releaseIps([
      { address: request.address, handle: "c1", sequenceNumber: before.sequenceNumber },
    ]);
    expect(error).toMatchObject({ word: "release-mismatch" });
  });

  it("of a borrowed address works as of any other", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/30": { blockSize: 30 } } });
    await cluster.assign("node-a", "c1");
    await cluster.assign("node-b", "c2");
    await cluster.allocator.releaseByHandle("c2");
    await cluster.allocator.releaseByHandle("c1");
    expect((await cluster.block("10.0.0.0/30"))?.unallocated).toHaveLength(4);
  });

  it("that loses against another writer goes on with what is stored then", async () => {
    cluster.before("update block", async () => {
      cluster.fateOf = undefined;
      await cluster.allocator.releaseByHandle("c2");
    });
    expect(await cluster.allocator.releaseIps([first])).toMatchObject({ unallocated: [] });
    expect(await cluster.handles()).toEqual({});
    expect((await cluster.block(CIDR))?.attributes).toEqual([]);
  });
});

describe("the life of a handle", () => {
  it("is unknown before, has one address between, and is unknown afterwards", async () => {
    const cluster = await Cluster.create();
    expect(await cluster.allocator.addressesByHandle("c1")).toBeUndefined();
    await cluster.assign("node-a", "c1");
    expect(await cluster.allocator.addressesByHandle("c1")).toEqual([
      {
        address: address("10.0.0.128"),
        block: "10.0.0.128/26",
        handle: "c1",
        activeOwner: { node: "node-a" },
        alternateOwner: {},
        sequenceNumber: expect.any(BigInt),
        stored: await cluster.datastore.blocks.get("10.0.0.128/26"),
      },
    ]);
    await cluster.allocator.releaseByHandle("c1");
    expect(await cluster.allocator.addressesByHandle("c1")).toBeUndefined();
  });
});

describe("a release with owners as its condition", () => {
  const SOURCE = { node: "node-a", pod: "source" };
  const TARGET = { node: "node-b", pod: "target" };

  it("frees of a handle what has the owners, and leaves the rest with its count", async () => {
    const cluster = await Cluster.create();
    for (const text of ["10.0.0.9", "10.0.0.70"]) await cluster.assignIp("node-a", "vm", text, { attributes: SOURCE });
    await cluster.allocator.setOwnerAttributes(address("10.0.0.9"), "vm", { active: null });
    const { released } = await cluster.allocator.releaseByHandle("vm", { owners: { active: {}, alternate: {} } });
    expect(released).toEqual([address("10.0.0.9")]);
    expect(await cluster.handles()).toEqual({ vm: { "10.0.0.64/26": 1 } });
  });

  it("leaves an address that another pod has taken over", async () => {
    const cluster = await Cluster.create();
    await cluster.assignIp("node-a", "vm", "10.0.0.9", { attributes: SOURCE });
    const option = { address: address("10.0.0.9"), handle: "vm", owners: { active: SOURCE, alternate: {} } };
    await cluster.allocator.setOwnerAttributes(option.address, "vm", { alternate: TARGET });
    expect((await cluster.allocator.releaseIps([option])).error).toMatchObject({ word: "release-mismatch" });
    expect(await cluster.handles()).toEqual({ vm: { "10.0.0.0/26": 1 } });
    await cluster.allocator.setOwnerAttributes(option.address, "vm", { alternate: null });
    expect((await cluster.allocator.releaseIps([option])).error).toBeUndefined();
    expect(await cluster.handles()).toEqual({});
  });
});
