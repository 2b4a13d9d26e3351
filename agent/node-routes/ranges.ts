/** Host scope for routes: each node's range is a block of that node, and a pool whose packets cross subnets by VXLAN. Pure. */
import { formatPrefix } from "../../lib/addresses/address.ts";
import type { ClusterView, ProvenNode } from "./model.ts";

export function rangesAsBlocks(nodes: readonly Pick<ProvenNode, "name" | "ranges">[]): Pick<ClusterView, "blocks" | "pools"> {
  const owned = nodes.flatMap(({ name, ranges }) => ranges.map((cidr) => ({ cidr, owner: name })));
  return {
    blocks: owned.map((block) => ({ ...block, borrowed: [], tunnelEnds: [] })),
    pools: owned.map(({ cidr }) => ({
      name: formatPrefix(cidr),
      cidr,
      vxlanMode: "CrossSubnet",
      ipipMode: "Never",
      natOutgoing: true,
      // Tunnel addresses are the nodes' router addresses.
      servesTunnels: false,
      nodeSelector: "",
    })),
  };
}
