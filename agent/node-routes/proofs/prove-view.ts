/** What holds of everything that the cluster says, where addresses come from blocks and where they come from nodes' ranges. Pure. */
import { contains, formatPrefix } from "../../../lib/addresses/address.ts";
import { BLOCK_SIZES } from "../../../lib/config/local-pools.ts";
import type { ClusterClaims, ClusterView, RoutedBlock } from "../model.ts";
import { rangesAsBlocks } from "../ranges.ts";
import { proveRanges, type RangeKnowledge } from "./ranges.ts";
import { isAllocatedBy, proveTunnelEnds } from "./tunnel-ends.ts";

/** The store's blocks say which address is whose. */
export function proveByBlocks({ nodes, blocks, pools }: ClusterClaims): ClusterView {
  const sound = blocks.filter(isOfBlockSize);
  const { ends, refused } = proveTunnelEnds(nodes, isAllocatedBy(sound));
  return {
    nodes: nodes.map((node) => ({ ...node, tunnels: ends.get(node.name) ?? {}, ranges: [] })),
    blocks: sound,
    pools,
    refused: [
      ...refused,
      ...blocks.filter((block) => !isOfBlockSize(block)).map(({ cidr }) => `${formatPrefix(cidr)} is larger than a block`),
    ],
  };
}

/** The cluster gives each node its ranges, and the address of a tunnel is one of the node's. */
export function proveByRanges({ nodes }: ClusterClaims, knowledge: RangeKnowledge): ClusterView {
  const proven = proveRanges(nodes, knowledge);
  const rangesOf = (name: string) => proven.ranges.get(name) ?? [];
  const { ends, refused } = proveTunnelEnds(nodes, (name, address) => rangesOf(name).some((range) => contains(range, address)));
  const withRanges = nodes.map((node) => ({ ...node, tunnels: ends.get(node.name) ?? {}, ranges: rangesOf(node.name) }));
  // Older nodes first, as their ranges are.
  const byAge = [...proven.ranges].map(([name, ranges]) => ({ name, ranges }));
  return { nodes: withRanges, ...rangesAsBlocks(byAge), refused: [...proven.refused, ...refused] };
}

/** No allocator makes larger ones (I§2.7), and a larger one would take what belongs to many nodes. */
function isOfBlockSize({ cidr }: RoutedBlock): boolean {
  return cidr.length >= BLOCK_SIZES[cidr.address.family].least;
}
