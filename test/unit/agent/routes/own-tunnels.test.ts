import { routedBlock } from "../../../../agent/routes/kubernetes-sources.ts";
import type { ProvenNode, RoutedBlock, RoutedPool } from "../../../../agent/routes/model.ts";
import { OwnTunnels } from "../../../../agent/routes/own-tunnels.ts";
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { formatAddress, formatPrefix } from "../../../../lib/addresses/address.ts";
import { watchedBlock } from "../../../../lib/datastore/calico/block.ts";
import { address } from "../../../support/addresses.ts";
import { host } from "../../../support/cluster.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { fresh } from "../../../support/fixtures.ts";
import { type MemoryDatastore, MemoryStore } from "../../../support/memory-datastore.ts";
import { ownNode, routedNode, routedPool } from "../../../support/routed-cluster.ts";
import { samplePool } from "../../../support/samples.ts";

const UNDERLAY = ownNode("one", ["172.20.1.1/24", "fd20:1::1/64"]).underlay;
const ONE = routedNode("one", []);
const POOLS = [
  routedPool("10.9.0.0/24", { name: "p4", vxlanMode: "CrossSubnet" }),
  routedPool("fd09::/112", { name: "p6", vxlanMode: "Always" }),
];

class World {
  readonly datastore: MemoryDatastore = new MemoryStore().connect();
  readonly allocator = new Allocator({ datastore: this.datastore, clock: { nowMs: () => 0, nowNs: () => 0n } });
  readonly clock = new FakeClock();
  readonly failed: string[] = [];
  isAway = false;
  opened = 0;
  readonly tunnels = new OwnTunnels(async (work) => {
    this.opened++;
    if (this.isAway) throw new Error("the store is away");
    return work(this.allocator);
  }, this.clock);

  async addPools(...pools: readonly RoutedPool[]): Promise<void> {
    for (const pool of pools) await this.datastore.pools.create(pool.name, samplePool(pool.name, formatPrefix(pool.cidr)));
  }

  /** What the agent's watch of the blocks shows. */
  async blocks(): Promise<readonly RoutedBlock[]> {
    const stored = await this.datastore.blocks.list();
    return stored.map(({ value }) => watchedBlock(value)).flatMap((block) => (block === undefined ? [] : [routedBlock(block)]));
  }

  /** "10.9.0.1", both families in order. */
  async ends(node: ProvenNode, pools: readonly RoutedPool[] = POOLS, blocks?: readonly RoutedBlock[]): Promise<string[]> {
    const view = { pools, blocks: blocks ?? (await this.blocks()) };
    const ends = await this.tunnels.ends(node, view, UNDERLAY, (message) => this.failed.push(message));
    return Object.values(ends).map((end) => formatAddress(end.address));
  }

  /** The looks after which an address may be given back that other nodes may still send to. */
  async giveBack(node: ProvenNode): Promise<void> {
    await this.tunnels.giveBack(node);
    await this.clock.advance(10_000);
    await this.tunnels.giveBack(node);
  }

  async held(handle: string): Promise<{ readonly address: string; readonly owner: object }[]> {
    const held = (await this.allocator.addressesByHandle(handle)) ?? [];
    return held.map(({ address: ip, activeOwner }) => ({ address: formatAddress(ip), owner: activeOwner }));
  }
}

const world = fresh(() => new World());
beforeEach(() => world.addPools(...POOLS));

/** The part of an agent that has just started. */
const viewOf = (pools: readonly RoutedPool[]) => ({ pools, blocks: [] });
const restarted = () => new OwnTunnels((work) => work(world.allocator), world.clock);

describe("The tunnel addresses of a node", () => {
  it("are one of each family, under Calico's handles and with its attributes (I§2.4, I§2.5)", async () => {
    const [ipv4, ipv6] = await world.ends(ONE);
    expect(world.failed).toEqual([]);
    expect(await world.held("vxlan-tunnel-addr-one")).toEqual([{ address: ipv4, owner: { node: "one", type: "vxlanTunnelAddress" } }]);
    expect(await world.held("vxlan-v6-tunnel-addr-one")).toEqual([{ address: ipv6, owner: { node: "one", type: "vxlanV6TunnelAddress" } }]);
  });

  it("stay the same for an agent that starts anew, and cost nothing while the node's object names them", async () => {
    const first = await world.ends(ONE);
    const recorded = routedNode("one", [], first);
    expect(await world.ends(recorded)).toEqual(first);
    expect(world.opened).toBe(2);

    const ends = await restarted().ends(ONE, viewOf(POOLS), UNDERLAY, () => {});
    expect(Object.values(ends).map((end) => formatAddress(end.address))).toEqual(first);
  });

  it("are looked at again after ten minutes, and for a Node object that was made anew: they may be another's by then", async () => {
    const first = await world.ends(ONE);
    await world.allocator.releaseByHandle("vxlan-tunnel-addr-one");
    const other = { handle: "other", attributes: { node: "one" }, owner: host("one") };
    await world.allocator.assignIp({ address: address(first[0] ?? ""), ...other });

    const [ipv4, ipv6] = await world.ends(ONE);

    expect(ipv4).not.toBe(first[0]);
    expect(ipv6).toBe(first[1]);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);

    const opened = world.opened;
    await world.clock.advance(600_000);
    await world.ends(routedNode("one", [], [ipv4 ?? "", ipv6 ?? ""]));
    expect(world.opened).toBe(opened + 2);
  });

  it("are those that the node's object names where these are free", async () => {
    expect(await world.ends(routedNode("one", [], ["10.9.0.77", "fd09::7"]))).toEqual(["10.9.0.77", "fd09::7"]);
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: "10.9.0.77" }]);
  });

  it("move with the pools, and are given back when no pool asks for a tunnel", async () => {
    const other = routedPool("10.8.0.0/24", { name: "other", vxlanMode: "Always" });
    await world.addPools(other);
    const first = await world.ends(ONE, POOLS.slice(0, 1));
    await world.ends(routedNode("one", [], first), [other]);
    const [moved = ""] = await world.ends(routedNode("one", [], first), [other]);
    expect(moved).toMatch(/^10\.8\.0\./);
    await world.giveBack(routedNode("one", [], [moved]));
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: moved }]);

    expect(await world.ends(routedNode("one", [], [moved]), [{ ...other, vxlanMode: "Never" }])).toEqual([]);
    await world.tunnels.giveBack(ONE);
    expect(await world.held("vxlan-tunnel-addr-one")).toEqual([]);
  });

  it("G15: are held until they are given back, also those that an earlier process of the agent has left", async () => {
    const first = await world.ends(ONE);
    const never = POOLS.map((pool) => ({ ...pool, vxlanMode: "Never" as const }));
    expect(await world.ends(routedNode("one", [], first), never)).toEqual([]);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);

    const without = restarted();
    await without.ends(ONE, viewOf([]), UNDERLAY, () => {});
    await without.giveBack(ONE);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);
    await restarted().ends(ONE, viewOf(never), UNDERLAY, () => {});

    const next = restarted();
    await next.ends(ONE, viewOf(never), UNDERLAY, () => {});
    await next.giveBack(ONE);
    expect([...(await world.held("vxlan-tunnel-addr-one")), ...(await world.held("vxlan-v6-tunnel-addr-one"))]).toEqual([]);
  });

  it("G15: are kept by a pool that asks for them again before they were given back", async () => {
    const first = await world.ends(ONE);
    await world.ends(routedNode("one", [], first), [{ ...(POOLS[0] as RoutedPool), vxlanMode: "Never" }]);
    expect(await world.ends(ONE)).toEqual(first);
    await world.tunnels.giveBack(ONE);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);
  });

  it("come only from pools that may serve tunnels and select the node; without one the other family has its own all the same", async () => {
    const [pool4, pool6] = POOLS as [RoutedPool, RoutedPool];
    for (const change of [{ servesTunnels: false }, { nodeSelector: "zone == 'far'" }]) {
      expect(await world.ends(ONE, [{ ...pool4, ...change }, pool6])).toEqual([expect.stringMatching(/^fd09::/)]);
    }
    expect(world.failed).toEqual(Array(2).fill("IPv4 tunnel address: no pool with VXLAN may give node one a tunnel address"));
  });

  it("stay while the store is away, as long as the node's object names them", async () => {
    world.isAway = true;
    expect(await world.ends(routedNode("one", [], ["10.9.0.5"]))).toEqual(["10.9.0.5"]);
    expect(world.failed).toEqual(["IPv4 tunnel address: the store is away", "IPv6 tunnel address: the store is away"]);
  });
});

describe("A tunnel address that is held", () => {
  const [pool4] = POOLS as [RoutedPool, RoutedPool];
  const spare = routedPool("10.8.0.0/24", { name: "spare", vxlanMode: "Always" });
  let first: string;
  let recorded: ProvenNode;
  beforeEach(async () => {
    [first = ""] = await world.ends(ONE, [pool4]);
    recorded = routedNode("one", [], [first]);
  });

  it.each([
    ["is disabled", { servesTunnels: false }],
    ["selects other nodes", { nodeSelector: "zone == 'far'" }],
  ])("X1: stays although its pool %s, with another pool and without", async (_, change) => {
    await world.addPools(spare);
    for (const pools of [[{ ...pool4, ...change }], [{ ...pool4, ...change }, spare]]) {
      for (const tunnels of [world.tunnels, restarted()]) {
        const ends = await tunnels.ends(recorded, { pools, blocks: [] }, UNDERLAY, (message) => world.failed.push(message));
        expect(Object.values(ends).map(({ address: ip }) => formatAddress(ip))).toEqual([first]);
        await tunnels.giveBack(recorded);
      }
    }
    expect(world.failed).toEqual([]);
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: first }]);
  });

  it("X1: stays in a pool that is deleted, or gone, as long as pods have addresses of it, and goes after the last", async () => {
    const pod = { handle: "pod", attributes: { node: "two", pod: "p" }, owner: host("two") };
    await world.allocator.autoAssign({ ...pod, count4: 1, count6: 0, use: "Workload" });
    for (const pools of [[{ ...pool4, servesTunnels: false, isDeleting: true }], [routedPool("fd08::/112", { name: "other" })]]) {
      expect(await world.ends(recorded, pools)).toEqual([first]);
      await world.tunnels.giveBack(recorded);
    }
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);

    await world.allocator.releaseByHandle("pod");
    expect(await world.ends(recorded, [{ ...pool4, servesTunnels: false, isDeleting: true }])).toEqual([]);
    await world.tunnels.giveBack(ONE);
    expect(await world.held("vxlan-tunnel-addr-one")).toEqual([]);
  });

  it("X1: moves out of a pool that is deleted: the new one counts once the blocks show it, the old one goes ten seconds after the object", async () => {
    await world.addPools(spare);
    const pools = [{ ...pool4, servesTunnels: false, isDeleting: true }, spare];
    const before = await world.blocks();
    expect(await world.ends(recorded, pools, before)).toEqual([first]);
    const [moved = ""] = await world.ends(recorded, pools);
    expect(moved).toMatch(/^10\.8\.0\./);
    await world.giveBack(recorded);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(2);

    const named = routedNode("one", [], [moved]);
    expect(await world.ends(named, pools)).toEqual([moved]);
    await world.tunnels.giveBack(named);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(2);
    await world.clock.advance(10_000);
    await world.tunnels.giveBack(named);
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: moved }]);
  });

  it("X1: stays where its successor cannot be had, and is tried again", async () => {
    const pools = [{ ...pool4, servesTunnels: false, isDeleting: true }, spare];
    // The store has no such pool: nothing can be assigned.
    for (const failures of [1, 2]) {
      expect(await world.ends(recorded, pools)).toEqual([first]);
      expect(world.failed).toHaveLength(failures);
    }
    world.isAway = true;
    expect(await world.ends(ONE, pools)).toEqual([first]);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);
  });

  it("X1: is the one that the node's object names where the node holds two, in a full pool too", async () => {
    const tiny = routedPool("10.7.0.0/31", { name: "tiny", vxlanMode: "Always" });
    await world.datastore.pools.create("tiny", samplePool("tiny", "10.7.0.0/31", { blockSize: 31 }));
    await world.allocator.releaseByHandle("vxlan-tunnel-addr-one");
    const mine = { handle: "vxlan-tunnel-addr-one", attributes: { node: "one", type: "vxlanTunnelAddress" }, owner: host("one") };
    for (const ip of ["10.7.0.0", "10.7.0.1"]) await world.allocator.assignIp({ ...mine, use: "Tunnel", address: address(ip) });
    const named = routedNode("one", [], ["10.7.0.1"]);
    expect(await world.ends(named, [tiny])).toEqual(["10.7.0.1"]);
    await world.giveBack(named);
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: "10.7.0.1" }]);
  });
});
