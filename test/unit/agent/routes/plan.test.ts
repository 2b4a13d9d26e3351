import { type ClusterView, tunnelMac } from "../../../../agent/routes/model.ts";
import { planNodeRoutes } from "../../../../agent/routes/plan.ts";
import { rangesAsBlocks } from "../../../../agent/routes/proofs.ts";
import { formatAddress, formatPrefix } from "../../../../lib/addresses/address.ts";
import { address, prefix } from "../../../support/addresses.ts";
import { ownNode, routedBlock, routedNode, routedPool, routeTexts } from "../../../support/routed-cluster.ts";

const OWN = ownNode("one", ["172.20.1.1/24", "fd20:1::1/64"], ["10.9.1.0", "fd09:1::"]);
const NEAR = routedNode("near", ["172.20.1.2/24", "fd20:1::2/64"], ["10.9.2.0", "fd09:2::"]);
const FAR = routedNode("far", ["172.20.3.3/24", "fd20:3::3/64"], ["10.9.3.0", "fd09:3::"]);
const NODES = [routedNode("one", ["172.20.1.1/24"]), NEAR, FAR];
const BLOCKS4 = [routedBlock("10.9.1.0/26", "one"), routedBlock("10.9.2.0/26", "near"), routedBlock("10.9.3.0/26", "far")];
const BLOCKS6 = [routedBlock("fd09:1::/122", "one"), routedBlock("fd09:2::/122", "near"), routedBlock("fd09:3::/122", "far")];

const DIRECT = [routedPool("10.9.0.0/16")];

function plan(view: Partial<ClusterView>, { own = OWN, mayTunnel = true } = {}) {
  const { network, unserved } = planNodeRoutes(own, { nodes: NODES, blocks: BLOCKS4, pools: [], refused: [], ...view }, mayTunnel);
  return { routes: routeTexts(network), unserved: [...unserved], tunnels: network.tunnels };
}

describe("The plan of routes between nodes", () => {
  it("leads through VXLAN to every node, or only to those of other subnets, as the pool says", () => {
    expect(plan({ pools: [routedPool("10.9.0.0/16", { vxlanMode: "Always" })] }).routes).toEqual([
      "blackhole 10.9.1.0/26",
      "10.9.2.0/26 via 10.9.2.0 dev vxlan.calico",
      "10.9.3.0/26 via 10.9.3.0 dev vxlan.calico",
    ]);
    expect(plan({ pools: [routedPool("10.9.0.0/16", { vxlanMode: "CrossSubnet" })] }).routes).toEqual([
      "blackhole 10.9.1.0/26",
      "10.9.2.0/26 via 172.20.1.2",
      "10.9.3.0/26 via 10.9.3.0 dev vxlan.calico",
    ]);
  });

  it("leaves nodes of other subnets to the network where no pool asks for a tunnel, without a word", () => {
    expect(plan({ pools: [routedPool("10.9.0.0/16")] })).toMatchObject({
      routes: ["blackhole 10.9.1.0/26", "10.9.2.0/26 via 172.20.1.2"],
      unserved: [],
    });
  });

  it("makes no route against IPIP, which BIRD does, and says so", () => {
    expect(plan({ pools: [routedPool("10.9.0.0/16", { name: "p4", ipipMode: "Always" })] })).toMatchObject({
      routes: ["blackhole 10.9.1.0/26"],
      unserved: [["pool p4 wants IPIP, which BIRD does", 2]],
    });
    expect(plan({ pools: [routedPool("10.9.0.0/16", { ipipMode: "CrossSubnet" })] }).routes).toContain("10.9.2.0/26 via 172.20.1.2");
  });

  it("makes no tunnel with --node-routes direct, and says what is left out", () => {
    const own = { ...OWN, tunnels: {} };
    expect(plan({ pools: [routedPool("10.9.0.0/16", { name: "p4", vxlanMode: "CrossSubnet" })] }, { own, mayTunnel: false })).toEqual({
      routes: ["blackhole 10.9.1.0/26", "10.9.2.0/26 via 172.20.1.2"],
      unserved: [["pool p4 wants VXLAN, and --node-routes is direct", 1]],
      tunnels: [],
    });
  });

  it("goes by the smallest pool that a block is in", () => {
    const pools = [routedPool("10.9.0.0/16", { vxlanMode: "Always" }), routedPool("10.9.2.0/24")];
    expect(plan({ pools }).routes).toContain("10.9.2.0/26 via 172.20.1.2");
  });

  it("X1: leads to blocks of pools that were deleted through tunnels that are there, else directly, else says why not", () => {
    expect(plan({ pools: [] })).toMatchObject({
      routes: ["blackhole 10.9.1.0/26", "10.9.2.0/26 via 10.9.2.0 dev vxlan.calico", "10.9.3.0/26 via 10.9.3.0 dev vxlan.calico"],
      unserved: [],
    });
    expect(plan({ pools: [] }, { own: ownNode("one", ["172.20.1.1/24"]) })).toMatchObject({
      routes: ["blackhole 10.9.1.0/26", "10.9.2.0/26 via 172.20.1.2"],
      unserved: [["it is in no pool, and not both nodes have a tunnel address", 1]],
    });
  });

  it("leads to the gateway of an IPv6 route first, which no other route may lead elsewhere", () => {
    expect(plan({ blocks: BLOCKS6, pools: [routedPool("fd09::/16", { vxlanMode: "CrossSubnet" })] }).routes).toEqual([
      "fd09:3::/128 dev vxlan-v6.calico",
      "blackhole fd09:1::/122",
      "fd09:2::/122 via fd20:1::2",
      "fd09:3::/122 via fd09:3:: dev vxlan-v6.calico",
    ]);
  });

  it("leads to a borrowed address on every node but the one that uses it", () => {
    const blocks = [
      routedBlock("10.9.1.0/26", "one", ["10.9.1.9 near"]),
      routedBlock("10.9.2.0/26", "near", ["10.9.2.9 one", "10.9.2.8 far"]),
    ];
    const pools = [routedPool("10.9.0.0/16", { vxlanMode: "CrossSubnet" })];
    expect(plan({ blocks, pools }).routes).toEqual([
      "blackhole 10.9.1.0/26",
      "10.9.1.9/32 via 172.20.1.2",
      "10.9.2.0/26 via 172.20.1.2",
      "10.9.2.8/32 via 10.9.3.0 dev vxlan.calico",
    ]);
  });

  it("leads to the addresses of a block without owner one by one, and never drops what is sent to a block of one address", () => {
    const blocks = [routedBlock("10.9.5.0/26", undefined, ["10.9.5.1 near"]), routedBlock("10.9.6.1/32", "one")];
    expect(plan({ blocks, pools: DIRECT }).routes).toEqual(["10.9.5.1/32 via 172.20.1.2"]);
  });

  it("has no route to a node that is not there, and says why there is none to one that lacks an address", () => {
    const pools = [routedPool("10.9.0.0/16", { vxlanMode: "Always" })];
    expect(plan({ nodes: [NEAR], pools })).toMatchObject({ routes: ["blackhole 10.9.1.0/26", expect.anything()], unserved: [] });
    expect(plan({ nodes: [routedNode("near", ["172.20.1.2/24"]), routedNode("far", [])], pools }).unserved).toEqual([
      ["node near has no IPv4 tunnel address", 1],
      ["node far has no IPv4 address", 1],
    ]);
    expect(plan({ pools }, { own: ownNode("one", ["172.20.1.1/24"]) }).unserved).toEqual([["this node has no IPv4 tunnel address", 2]]);
    expect(plan({ pools }, { own: ownNode("one", []) }).unserved).toEqual([["this node has no IPv4 address", 2]]);
  });

  it("describes the tunnel as Calico's nodes have it, with every peer that can be reached", () => {
    const named = { ...FAR, tunnels: { 4: { address: address("10.9.3.0"), mac: "02:00:00:00:00:03" } } };
    const { tunnels } = plan({ nodes: [NEAR, named, routedNode("new", ["172.20.4.4/24"])] });
    const [tunnel, tunnel6] = tunnels;
    expect(tunnel).toMatchObject({ name: "vxlan.calico", vni: 4096, port: 4789, mtu: 1450, mac: tunnelMac("one", 4) });
    expect(tunnel6).toMatchObject({ name: "vxlan-v6.calico", vni: 4096, port: 4789, mtu: 1430, mac: tunnelMac("one", 6) });
    expect(tunnel?.peers.map(({ node, mac }) => `${formatAddress(node)} ${mac}`)).toEqual([
      `172.20.1.2 ${tunnelMac("near", 4)}`,
      "172.20.3.3 02:00:00:00:00:03",
    ]);
  });

  it("S1: leads nothing elsewhere that is this node's own, joins the nodes, or is no workload's", () => {
    const cases: readonly (readonly [ClusterView["blocks"][number], string])[] = [
      [routedBlock("10.9.1.0/26", "near"), "overlaps with this node's own 10.9.1.0/26"],
      [routedBlock("10.9.1.32/27", "near"), "overlaps with this node's own 10.9.1.0/26"],
      [routedBlock("10.9.0.0/20", "near"), "overlaps with this node's own 10.9.1.0/26"],
      [routedBlock("172.20.1.0/26", "near"), "has the address 172.20.1.1 of a node"],
      [routedBlock("172.20.3.0/26", "near"), "has the address 172.20.3.3 of a node"],
      [routedBlock("169.254.169.252/30", "near"), "has addresses of 169.254.0.0/16"],
    ];
    for (const [block, why] of cases) {
      const { routes, unserved } = plan({ blocks: [routedBlock("10.9.1.0/26", "one"), block] });
      expect(routes).toEqual(["blackhole 10.9.1.0/26"]);
      expect(unserved).toEqual([[`${formatPrefix(block.cidr)} of node near ${why}`, 1]]);
    }
    // A node's word for its own address takes no route from the block of another.
    const liar = routedNode("liar", ["10.9.2.5/24"]);
    expect(plan({ nodes: [...NODES, liar], pools: [routedPool("10.9.0.0/16")] }).routes).toContain("10.9.2.0/26 via 172.20.1.2");
  });

  it("S1: leads to one of two nodes that have the same block, always the same", () => {
    const blocks = [routedBlock("10.9.2.0/26", "near"), routedBlock("10.9.2.0/26", "far")];
    expect(plan({ blocks, pools: DIRECT })).toMatchObject({
      routes: ["10.9.2.0/26 via 172.20.1.2"],
      unserved: [["10.9.2.0/26 of node far is another node's too", 1]],
    });
  });

  it("takes ranges of nodes for blocks that cross subnets by VXLAN", () => {
    const nodes = NODES.map((node, index) => ({ ...node, ranges: [prefix(`10.8.${index}.0/24`)] }));
    expect(plan({ nodes, ...rangesAsBlocks(nodes) }).routes).toEqual([
      "blackhole 10.8.0.0/24",
      "10.8.1.0/24 via 172.20.1.2",
      "10.8.2.0/24 via 10.9.3.0 dev vxlan.calico",
    ]);
  });
});

describe("The MAC of a tunnel", () => {
  it("is the one that a node of Calico has: seen on a machine named k8s-master01, by its link-local address", () => {
    expect(tunnelMac("k8s-master01", 4)).toBe("66:54:d1:67:d3:6d");
    expect(tunnelMac("k8s-master01", 6)).not.toBe(tunnelMac("k8s-master01", 4));
  });
});
