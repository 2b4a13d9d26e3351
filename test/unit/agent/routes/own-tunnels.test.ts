import type { ProvenNode, RoutedPool } from "../../../../agent/routes/model.ts";
import { OwnTunnels } from "../../../../agent/routes/own-node.ts";
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { formatAddress, formatPrefix } from "../../../../lib/addresses/address.ts";
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

  /** "10.9.0.1", both families in order. */
  async ends(node: ProvenNode, pools: readonly RoutedPool[] = POOLS): Promise<string[]> {
    const ends = await this.tunnels.ends(node, pools, UNDERLAY, (message) => this.failed.push(message));
    return Object.values(ends).map((end) => formatAddress(end.address));
  }

  async held(handle: string): Promise<{ readonly address: string; readonly owner: object }[]> {
    const held = (await this.allocator.addressesByHandle(handle)) ?? [];
    return held.map(({ address: ip, activeOwner }) => ({ address: formatAddress(ip), owner: activeOwner }));
  }
}

const world = fresh(() => new World());
beforeEach(() => world.addPools(...POOLS));

/** The part of an agent that has just started. */
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

    const ends = await restarted().ends(ONE, POOLS, UNDERLAY, () => {});
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
    const [moved = ""] = await world.ends(routedNode("one", [], first), [other]);
    expect(moved).toMatch(/^10\.8\.0\./);
    expect(await world.held("vxlan-tunnel-addr-one")).toMatchObject([{ address: moved }]);

    expect(await world.ends(routedNode("one", [], [moved]), [{ ...other, vxlanMode: "Never" }])).toEqual([]);
    await world.tunnels.giveBack("one");
    expect(await world.held("vxlan-tunnel-addr-one")).toEqual([]);
  });

  it("G15: are held until they are given back, also those that an earlier process of the agent has left", async () => {
    const first = await world.ends(ONE);
    const never = POOLS.map((pool) => ({ ...pool, vxlanMode: "Never" as const }));
    expect(await world.ends(routedNode("one", [], first), never)).toEqual([]);
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);

    const without = restarted();
    await without.ends(ONE, [], UNDERLAY, () => {});
    await without.giveBack("one");
    expect(await world.held("vxlan-tunnel-addr-one")).toHaveLength(1);
    await restarted().ends(ONE, never, UNDERLAY, () => {});

    const next = restarted();
    await next.ends(ONE, never, UNDERLAY, () => {});
    await next.giveBack("one");
    expect([...(await world.held("vxlan-tunnel-addr-one")), ...(await world.held("vxlan-v6-tunnel-addr-one"))]).toEqual([]);
  });

  it("G15: are kept by a pool that asks for them again before they were given back", async () => {
    const first = await world.ends(ONE);
    await world.ends(routedNode("one", [], first), [{ ...(POOLS[0] as RoutedPool), vxlanMode: "Never" }]);
    expect(await world.ends(ONE)).toEqual(first);
    await world.tunnels.giveBack("one");
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
