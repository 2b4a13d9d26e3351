/** Objects that cannot be read or make no sense: they stop nothing but themselves. */

import { decodeBlock } from "../../../../lib/datastore/calico/block.ts";
import { DatastoreError } from "../../../../lib/datastore/errors.ts";
import { address } from "../../../support/addresses.ts";
import { giveUpBlocks } from "../../../support/blocks.ts";
import { Cluster, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { heldBlock, owned } from "../../../support/samples.ts";

const BLOCK = "10.0.0.0/26";
const CONFIGURATION = "get ipam-configuration default";

const cluster = fresh(() => Cluster.create({ configuration: { ipCooldownSeconds: 3600 }, ...owned("node-a", [BLOCK]) }));

/** Nobody can decode what a call returns. */
function damage(cluster: Cluster, damaged: string): void {
  cluster.answers(damaged, new DatastoreError("invalid", `${damaged}: cannot be decoded`));
}

describe("F9: a configuration that cannot be decoded", () => {
  it.each([
    ["by handle", () => cluster.allocator.releaseByHandle("c1")],
    ["by address", () => cluster.allocator.releaseIps([{ address: address("10.0.0.0") }])],
  ])("keeps no address from being released %s: it is free at once, and the log says so", async (_how, release) => {
    await cluster.assign("node-a", "c1");
    damage(cluster, CONFIGURATION);
    await release();
    expect(await cluster.handles()).toEqual({});
    expect((await cluster.block(BLOCK))?.allocations.every((index) => index === null)).toBe(true);
    expect(cluster.logged).toEqual([expect.stringContaining("cannot be decoded")]);
  });

  it("keeps no block from being given up", async () => {
    await cluster.assign("node-a", "c1");
    await cluster.allocator.releaseByHandle("c1");
    damage(cluster, CONFIGURATION);
    await giveUpBlocks(cluster.allocator, host("node-a"), { mustBeEmpty: true });
    expect(await cluster.blocks()).toEqual([]);
  });

  it("that only cannot be reached does: the release is tried again later", async () => {
    await cluster.assign("node-a", "c1");
    cluster.answers(CONFIGURATION, "unavailable");
    await expect(cluster.allocator.releaseByHandle("c1")).rejects.toMatchObject({ failure: "unavailable" });
    expect(await cluster.handles()).toEqual({ c1: { [BLOCK]: 1 } });
  });
});

describe("F10: an address that nobody has seen in use", () => {
  it("is given back without a cooldown", async () => {
    const taken = await cluster.autoAssign("node-a", "c1");
    await cluster.allocator.giveBack(taken, "c1", { neverUsed: true });
    expect(await cluster.block(BLOCK)).toMatchObject({ attributes: [], sequenceNumberForAllocation: {} });
    expect((await cluster.block(BLOCK))?.unallocated).toHaveLength(64);
    expect(await cluster.handles()).toEqual({});
  });

  it("is the only one: one that may have been in use cools down", async () => {
    await cluster.allocator.giveBack(await cluster.autoAssign("node-a", "c1"), "c1");
    expect(await cluster.block(BLOCK)).toMatchObject({ attributes: [{ releasedAt: expect.any(String) }] });
  });
});

describe("F12: a handle without blocks", () => {
  it("is removed when it is released", async () => {
    const cluster = await Cluster.create({ handles: { c1: {} } });
    expect(await cluster.allocator.releaseByHandle("c1")).toEqual({ found: true, released: [] });
    expect(await cluster.handles()).toEqual({});
  });
});

describe("F12: a damaged block on a node's walk", () => {
  const POOLS = { "10.0.0.0/28": { blockSize: 30 } };

  it.each(["get", "create"])("is passed over: the node claims the next one (%s fails)", async (operation) => {
    const plain = await Cluster.create({ pools: POOLS });
    await plain.assign("node-a", "c1");
    const [usual = ""] = (await plain.blocks()).map(({ cidr }) => cidr);

    const cluster = await Cluster.create({ pools: POOLS });
    damage(cluster, `${operation} block ${usual.replaceAll(/[./]/g, "-")}`);
    expect(await cluster.assign("node-a", "c1")).toHaveLength(1);
    const blocks = (await cluster.blocks()).map(({ cidr }) => cidr);
    expect(blocks).toHaveLength(1);
    expect(blocks).not.toContain(usual);
  });
});

describe("S9: a block in a list whose allocations cannot be decoded", () => {
  const ordinals = [0, 1, 2, 3, 4, 5, 6, 7];
  const cidrOf = (index: number) => `10.0.0.${(index % 8) * 4}/30`;

  /** Blocks of node-b with one address in use; what is decoded of one of them fails when it is looked at, as in a list of the codec. */
  async function poisoned(bad: string, blocks: readonly string[]): Promise<Cluster> {
    const cluster = await Cluster.create({
      pools: { "10.0.0.0/27": { blockSize: 30 } },
      blocks: blocks.map((cidr) => heldBlock(cidr, [{ handleId: "z" }], { affinity: host("node-b") })),
    });
    damage(cluster, `get block ${bad.replaceAll(/[./]/g, "-")}`);
    const { blocks: observed } = cluster.observed;
    const list = observed.list.bind(observed);
    const lazy = decodeBlock({ cidr: bad, affinity: "host:node-b", allocations: [null], unallocated: [1] }, `IPAMBlock(${bad})`);
    observed.list = async () => (await list()).map((block) => (block.value.cidr === bad ? { ...block, value: lazy } : block));
    return cluster;
  }

  it("is named beside the figures of its pool, which count the others", async () => {
    const [bad = "", ...others] = ordinals.map(cidrOf);
    const cluster = await poisoned(bad, [bad, ...others]);
    const [pool] = await cluster.allocator.utilisation();
    expect(pool?.blocks.map(({ cidr }) => cidr).toSorted()).toEqual(others.toSorted());
    expect(pool?.inUse).toBe(7n);
    expect(pool?.unreadable).toEqual([expect.stringContaining(`IPAMBlock(${bad})`)]);
  });

  it.each(ordinals)("keeps no node from borrowing of the others (block %i)", async (index) => {
    const cluster = await poisoned(cidrOf(index), ordinals.map(cidrOf));
    const [borrowed = ""] = await cluster.assign("node-a", "c1");
    expect(borrowed).toMatch(/^10\.0\.0\.\d+\/30$/);
    const used = (await cluster.blocks()).filter(({ unallocated }) => unallocated.length === 2).map(({ cidr }) => cidr);
    expect(used).toHaveLength(1);
    expect(used).not.toContain(cidrOf(index));
  });

  it.each(ordinals)("keeps no node from claiming a free one further on its walk (block %i)", async (index) => {
    const free = cidrOf(index + 1);
    const cluster = await poisoned(
      cidrOf(index),
      ordinals.map(cidrOf).filter((cidr) => cidr !== free),
    );
    await cluster.assign("node-a", "c1");
    expect((await cluster.block(free))?.affinity).toEqual(host("node-a"));
  });
});
