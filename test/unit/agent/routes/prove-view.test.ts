import { decodeRoutedNode } from "../../../../agent/routes/kubernetes-sources.ts";
import { planNodeRoutes } from "../../../../agent/routes/plan.ts";
import { proveByBlocks, proveByRanges } from "../../../../agent/routes/proofs.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { prefix } from "../../../support/addresses.ts";
import { ownNode, routedBlock, routedPool, routeTexts } from "../../../support/routed-cluster.ts";

const C = "projectcalico.org";
const OWN = ownNode("victim", ["10.9.0.1/24"], ["10.244.1.0"]);

function node(name: string, host: number, annotations: Readonly<Record<string, string>>) {
  return decodeRoutedNode({
    metadata: { name, creationTimestamp: "2026-01-01T00:00:00Z", annotations: { [`${C}/IPv4Address`]: `10.9.${host}/24`, ...annotations } },
  });
}

describe("S1: routes by what another node says, attacks of the review", () => {
  it("A, A': a claimed range of others is no route, no pool, and leaves this node's own as it is", () => {
    const range = (cidr: string) => ({ "network.tortie.dev/ipv4-pod-cidr": cidr });
    for (const claim of ["0.0.0.0/1", "169.254.169.254/32", "10.244.2.0/25", "10.244.1.0/24", "0.0.0.0/0"]) {
      const nodes = [node("victim", 0.1, {}), node("good", 0.2, range("10.244.2.0/24")), node("zevil", 0.66, range(claim))];
      const view = proveByRanges(
        { nodes, blocks: [], pools: [] },
        { own: { name: "victim", ranges: [prefix("10.244.1.0/24")] }, subnets: [], clusterCidrs: [] },
      );
      expect(routeTexts(planNodeRoutes(OWN, view, true).network)).toEqual(["10.244.2.0/24 via 10.9.0.2", "blackhole 10.244.1.0/24"]);
      expect(view.pools.map(({ name }) => name)).toEqual(["10.244.2.0/24", "10.244.1.0/24"]);
      expect(view.refused).toHaveLength(1);
    }
  });

  it("B, C, D: a claimed tunnel address or MAC changes nothing for the node that has it", () => {
    const good = node("good", 3.3, { [`${C}/IPv4VXLANTunnelAddr`]: "10.244.2.0" });
    const claims = {
      [`${C}/IPv4VXLANTunnelAddr`]: "10.244.2.0",
      [`${C}/VXLANTunnelMACAddr`]: "66:00:00:00:00:01",
      [`${C}/IPv6VXLANTunnelAddr`]: "2001:db8::53",
    };
    const tunnelEnds = [{ address: prefix("10.244.2.0/32").address, node: "good" }];
    const blocks = [{ ...routedBlock("10.244.2.0/26", "good"), tunnelEnds }, routedBlock("10.244.3.0/26", "evil")];
    const pools = [routedPool("10.244.0.0/16", { vxlanMode: "Always" })];
    const view = proveByBlocks({ nodes: [node("victim", 0.1, {}), good, node("evil", 3.66, claims)], blocks, pools });
    const { network, unserved } = planNodeRoutes(OWN, view, true);
    expect(routeTexts(network)).toEqual(["10.244.2.0/26 via 10.244.2.0 dev vxlan.calico"]);
    expect(network.tunnels.flatMap(({ peers }) => peers.map((peer) => formatAddress(peer.node)))).toEqual(["10.9.3.3"]);
    expect([...unserved.keys()]).toEqual(["node evil has no IPv4 tunnel address"]);
  });

  it("a block that no allocator makes is none", () => {
    const view = proveByBlocks({
      nodes: [],
      blocks: [routedBlock("0.0.0.0/1", "evil"), routedBlock("fd00::/64", "evil"), routedBlock("10.9.8.0/20", "good")],
      pools: [],
    });
    expect(view.blocks.map(({ owner }) => owner)).toEqual(["good"]);
    expect(view.refused).toEqual(["0.0.0.0/1 is larger than a block", "fd00::/64 is larger than a block"]);
  });
});
