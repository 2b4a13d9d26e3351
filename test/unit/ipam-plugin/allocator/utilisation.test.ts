import { Cluster, host } from "../../../support/cluster.ts";
import { emptyBlock } from "../../../support/samples.ts";

async function figures(reserved: readonly string[]) {
  const cluster = await Cluster.create({ reserved });
  await cluster.assignIp("node-a", "c1", "10.0.0.9");
  const [pool] = await cluster.allocator.utilisation();
  return [pool?.capacity, pool?.inUse, pool?.reserved, pool?.available];
}

describe("the utilisation of a /24 with one address", () => {
  it.each<[string, readonly string[], readonly bigint[]]>([
    ["nothing reserved", [], [256n, 1n, 0n, 255n]],
    ["four others reserved", ["10.0.0.32/30"], [256n, 1n, 4n, 251n]],
    ["the address itself reserved", ["10.0.0.8/30"], [256n, 1n, 4n, 252n]],
    ["everything reserved", ["10.0.0.0/16"], [256n, 1n, 256n, 0n]],
  ])("and %s", async (_title, reserved, expected) => {
    expect(await figures(reserved)).toEqual(expected);
  });
});

describe("the utilisation of a block", () => {
  it("tells what is borrowed and what is cooling", async () => {
    const attributes = [
      { handleId: "a", activeOwner: { node: "node-a" } },
      { handleId: "b", activeOwner: { node: "node-b" } },
      { releasedAt: "2026-08-22T13:33:00Z" },
    ];
    const cluster = await Cluster.create({
      pools: { "10.0.0.0/24": { blockSize: 29 } },
      reserved: ["10.0.0.7"],
      blocks: [
        emptyBlock("10.0.0.0/29", 8, {
          affinity: host("node-a"),
          allocations: [0, 1, 2, 2, null, null, null, null],
          unallocated: [4, 5, 6, 7],
          attributes,
        }),
      ],
    });
    const [pool] = await cluster.allocator.utilisation();
    expect(pool?.blocks).toEqual([
      { cidr: "10.0.0.0/29", capacity: 8n, inUse: 4n, reserved: 1n, available: 3n, owner: host("node-a"), borrowed: 1 },
    ]);
  });

  it("of a pool of 2^64 addresses is counted without walking over them", async () => {
    const cluster = await Cluster.create({ pools: { "fd00::/64": {} }, reserved: ["fd00::/66"] });
    expect(await cluster.allocator.utilisation()).toMatchObject([
      { name: "p0", capacity: 2n ** 64n, reserved: 2n ** 62n, available: 2n ** 64n - 2n ** 62n, blocks: [] },
    ]);
  });
});
