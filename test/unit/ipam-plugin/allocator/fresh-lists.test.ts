/** Lists that an ADD made before it had to wait, or that came from memory: what may rest on them, and what must not. */
import { resolvePools } from "../../../../ipam-plugin/allocator/pools.ts";
import { addressesOf, Cluster, type ClusterSetup, host } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { owned } from "../../../support/samples.ts";

const POOL = "10.0.0.0/24";
const FIRST = "10.0.0.0/26";

/** A cluster whose allocator has listed everything already, as for an ADD that then waits for the node's lock. */
async function waiting(setup: ClusterSetup): Promise<Cluster> {
  const cluster = await Cluster.create(setup);
  const operation = cluster.allocator.begin({ owner: host("node-a"), mayBeOld: true });
  await Promise.all([operation.pools(), operation.reservations(), operation.affinities(4)]);
  return cluster;
}

async function remake(cluster: Cluster, blockSize: number): Promise<void> {
  await cluster.removePool("p0");
  await cluster.addPool("p1", POOL, { blockSize });
}

describe.each([
  ["in a store that answers from itself", false],
  ["in a store that answers from memory", true],
])("F1: an ADD that waited, %s,", (_store, hasMemory) => {
  it("gives no address of a pool that was disabled while it waited", async () => {
    const cluster = await waiting({ hasMemory, ...owned("node-a", [FIRST]) });
    await cluster.changePool("p0", { disabled: true });
    cluster.memory.hear("pool");
    await expect(cluster.assign("node-a", "c1")).rejects.toMatchObject({ word: "pool-none" });
    expect(await cluster.handles()).toEqual({});
  });

  it("gives no address that was reserved while it waited", async () => {
    const cluster = await waiting({ hasMemory, ...owned("node-a", [FIRST]) });
    await cluster.datastore.reservations.create("r", { name: "r", reservedCIDRs: ["10.0.0.0/31"] });
    cluster.memory.hear("reservation");
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.2/26"]);
  });

  it("claims no block of a pool that was deleted and made again with larger blocks, so that no address is given twice", async () => {
    const cluster = await waiting({ hasMemory });
    await remake(cluster, 24);
    const given = new Set<string>();
    for (let pod = 0; pod < 4; pod++) {
      given.add((await cluster.assign("node-a", `a${pod}`))[0]?.split("/")[0] ?? "");
      given.add((await cluster.assign("node-b", `b${pod}`))[0]?.split("/")[0] ?? "");
    }
    expect((await cluster.blocks()).map(({ cidr }) => cidr)).toEqual([POOL]);
    expect(given.size).toBe(8);
  });
});

describe("F1: an ADD whose memory does not know of it", () => {
  it("claims no block with a reserved address in it that it would then give", async () => {
    const cluster = await Cluster.create({ hasMemory: true, pools: { "10.0.0.0/30": { blockSize: 30 } } });
    await cluster.datastore.reservations.create("r", { name: "r", reservedCIDRs: ["10.0.0.0/31"] });
    expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.2/30"]);
  });

  it("claims a block of another pool when its own was disabled", async () => {
    const cluster = await Cluster.create({ hasMemory: true, pools: { [POOL]: {}, "10.1.0.0/24": {} } });
    await cluster.changePool("p0", { disabled: true });
    expect(await cluster.assign("node-a", "c1")).toEqual([expect.stringMatching(/^10\.1\.0\./)]);
  });

  it("makes the lists once for both families", async () => {
    const cluster = await Cluster.create({ hasMemory: true, pools: { [POOL]: {}, "fd00::/112": { blockSize: 122 } } });
    await cluster.autoAssign("node-a", "c1", { count4: 1, count6: 1 });
    expect(cluster.calls.filter((call) => /^list (pool|reservation)/.test(call))).toEqual([
      "list pool old",
      "list reservation old",
      "list pool",
      "list reservation",
    ]);
  });
});

describe("F8: a pool given by name", () => {
  const cluster = fresh(() => Cluster.create({ hasMemory: true }));

  it("is found though the memory does not know of it yet", async () => {
    await cluster.addPool("fresh", "10.1.0.0/24");
    expect(await resolvePools(cluster.allocator.begin({ mayBeOld: true }), ["fresh"], 4)).toEqual(["10.1.0.0/24"]);
    expect(await cluster.assign("node-a", "c1", 1, { ipv4Pools: ["fresh"] })).toEqual([expect.stringMatching(/^10\.1\.0\./)]);
  });

  it("is the one of that name now, when it was made again with another CIDR", async () => {
    await cluster.removePool("p0");
    await cluster.addPool("p0", "10.1.0.0/24");
    const { ipv4 } = await cluster.autoAssign("node-a", "c1", { count4: 1, ipv4Pools: ["p0"] });
    expect(ipv4?.error).toBeUndefined();
    expect(addressesOf(ipv4)).toEqual([expect.stringMatching(/^10\.1\.0\./)]);
  });

  it("is refused in the words of whoever wrote it when there is none, after one more look", async () => {
    await expect(cluster.assign("node-a", "c1", 1, { ipv4Pools: ["nope"] })).rejects.toMatchObject({
      word: "pool-entry-invalid",
      message: 'error parsing pool "nope": invalid CIDR address: nope',
    });
    expect(cluster.calls).toEqual(["list pool old", "list pool"]);
  });
});
