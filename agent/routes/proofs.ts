/** Decides what holds of everything that the cluster says, where addresses come from blocks and where from nodes' ranges. Pure. */
import {
  type Address,
  contains,
  covers,
  type Family,
  formatAddress,
  formatPrefix,
  hostPrefix,
  NEVER_A_WORKLOAD,
  overlaps,
  type Prefix,
} from "../../lib/addresses/address.ts";
import { BLOCK_SIZES } from "../../lib/config/ipam-section.ts";
import { isAssignableMac } from "../../lib/workload/requested.ts";
import {
  type ByFamily,
  type ClusterClaims,
  type ClusterView,
  DisjointPrefixes,
  FAMILIES,
  type ProvenNode,
  type RoutedBlock,
  type RoutedNode,
  type TunnelEnd,
  tunnelMac,
} from "./model.ts";

/** Proves claims by the store's blocks, which say whose each address is. */
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

/** Proves claims by the ranges that the cluster gives each node: the address of a tunnel is one of the node's. */
export function proveByRanges({ nodes }: ClusterClaims, knowledge: RangeKnowledge): ClusterView {
  const proven = proveRanges(nodes, knowledge);
  const rangesOf = (name: string) => proven.ranges.get(name) ?? [];
  const { ends, refused } = proveTunnelEnds(nodes, (name, address) => rangesOf(name).some((range) => contains(range, address)));
  const withRanges = nodes.map((node) => ({ ...node, tunnels: ends.get(node.name) ?? {}, ranges: rangesOf(node.name) }));
  // Takes older nodes first, as for their ranges.
  const byAge = [...proven.ranges].map(([name, ranges]) => ({ name, ranges }));
  return { nodes: withRanges, ...rangesAsBlocks(byAge), refused: [...proven.refused, ...refused] };
}

/** Rejects a block larger than any allocator makes (I§2.7), which would take what belongs to many nodes. */
function isOfBlockSize({ cidr }: RoutedBlock): boolean {
  return cidr.length >= BLOCK_SIZES[cidr.address.family].least;
}

/** Shows host scope to routes: each node's range is a block of that node, and a pool whose packets cross subnets by VXLAN. Pure. */
export function rangesAsBlocks(nodes: readonly Pick<ProvenNode, "name" | "ranges">[]): Pick<ClusterView, "blocks" | "pools"> {
  const owned = nodes.flatMap(({ name, ranges }) => ranges.map((cidr) => ({ cidr, owner: name })));
  return {
    blocks: owned.map((block) => ({ ...block, borrowed: [], isUsed: true, tunnelEnds: [] })),
    pools: owned.map(({ cidr }) => ({
      name: formatPrefix(cidr),
      cidr,
      vxlanMode: "CrossSubnet",
      ipipMode: "Never",
      natOutgoing: true,
      // Tunnel addresses are the nodes' router addresses.
      servesTunnels: false,
      isDeleting: false,
      nodeSelector: "",
    })),
  };
}

/**
 * How much one node may say it has where no `--cluster-cidr` is declared, in bits of prefix: from the size of an automatic range
 * (A§1.4) and that of the ranges that kube-controller-manager gives, to two addresses.
 */
const LENGTHS: Readonly<Record<Family, { readonly least: number; readonly most: number }>> = {
  4: { least: 16, most: 31 },
  6: { least: 64, most: 127 },
};

export interface RangeKnowledge {
  /** This node, whose agent has decided its ranges; empty until it has. */
  readonly own: { readonly name: string; readonly ranges: readonly Prefix[] };
  /** Subnets of the links of this host. */
  readonly subnets: readonly Prefix[];
  /** `--cluster-cidr`: where all ranges of the cluster lie, if an administrator says so. */
  readonly clusterCidrs: readonly Prefix[];
}

interface ProvenRanges {
  /** By name of the node, older nodes first. */
  readonly ranges: ReadonlyMap<string, readonly Prefix[]>;
  readonly refused: readonly string[];
}

/**
 * Decides which ranges of pods' addresses the nodes have (host scope; review, S1). `spec.podCIDRs` counts, which no node may write. What a
 * node says by an annotation counts inside of that, or, where the cluster gives no ranges, when it is nobody else's: a false one would lead
 * others' traffic to the node. Pure.
 */
export function proveRanges(nodes: readonly RoutedNode[], knowledge: RangeKnowledge): ProvenRanges {
  const { own } = knowledge;
  const byAge = [...nodes].sort(compareAge);
  const others = byAge.filter(({ name }) => name !== own.name);
  const ranges = new Map<string, readonly Prefix[]>();
  const refused: string[] = [];
  for (const node of byAge) {
    const isDecided = node.name === own.name && own.ranges.length > 0;
    ranges.set(node.name, isDecided ? own.ranges : FAMILIES.flatMap((family) => givenRange(node, family, refused) ?? []));
  }
  const taken = new DisjointPrefixes<string>();
  for (const [name, known] of ranges) for (const range of known) taken.add(range, name);
  const addresses = plausibleAddresses(nodes, taken, knowledge.clusterCidrs);
  for (const { name, given, claims } of others) {
    for (const family of FAMILIES) {
      if (given.some(({ address }) => address.family === family)) continue;
      claims.ranges[family]?.prove((range) => {
        const why = whyNot(range, addresses, knowledge) ?? overlapOf(taken.add(range, name));
        if (why === undefined) ranges.set(name, [...(ranges.get(name) ?? []), range]);
        else refused.push(`node ${name} says that ${formatPrefix(range)} is its range, which ${why}`);
      });
    }
  }
  return { ranges, refused };
}

/** Orders Node objects by when they were made, which the API server dates. */
function compareAge(one: RoutedNode, other: RoutedNode): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.name < other.name ? -1 : 1;
}

/** Returns the range that the cluster gave, or the part of it that an annotation says the node uses. */
function givenRange({ name, given, claims }: RoutedNode, family: Family, refused: string[]): Prefix | undefined {
  const ofFamily = given.filter(({ address }) => address.family === family);
  const [first] = ofFamily;
  if (first === undefined) return undefined;
  const part = claims.ranges[family]?.prove((range) => {
    if (ofFamily.some((whole) => covers(whole, range))) return range;
    refused.push(`node ${name} says that ${formatPrefix(range)} is its range, which lies outside of its spec.podCIDRs`);
    return undefined;
  });
  return part ?? first;
}

/** Leaves out addresses that lie where pods are: a node's address is its own word too, and would take that range from another node. */
function plausibleAddresses(
  nodes: readonly RoutedNode[],
  taken: DisjointPrefixes<string>,
  clusterCidrs: readonly Prefix[],
): DisjointPrefixes<string> {
  const found = new DisjointPrefixes<string>();
  for (const { name, recorded, internal } of nodes) {
    for (const family of FAMILIES) {
      for (const address of [recorded[family]?.address, internal[family]]) {
        if (address === undefined || clusterCidrs.some((cidr) => contains(cidr, address))) continue;
        if (taken.overlapping(hostPrefix(address)) === undefined) found.add(hostPrefix(address), name);
      }
    }
  }
  return found;
}

function overlapOf(other: { readonly prefix: Prefix; readonly value: string } | undefined): string | undefined {
  return other && `overlaps with ${formatPrefix(other.prefix)} of node ${other.value}`;
}

/** @returns the rest of the sentence that names the range; `undefined` when it is neither a workload's nor a node's */
function whyNot(range: Prefix, addresses: DisjointPrefixes<string>, { clusterCidrs, subnets }: RangeKnowledge): string | undefined {
  const special = NEVER_A_WORKLOAD.find((one) => overlaps(one, range));
  if (special !== undefined) return `has addresses of ${formatPrefix(special)}`;
  const declared = clusterCidrs.filter(({ address }) => address.family === range.address.family);
  if (declared.length > 0) {
    if (!declared.some((cidr) => covers(cidr, range))) return "lies outside of --cluster-cidr";
  } else {
    const { least, most } = LENGTHS[range.address.family];
    if (range.length < least || range.length > most) return `is not between /${least} and /${most}; declare --cluster-cidr`;
    const subnet = subnets.find((one) => overlaps(one, range));
    if (subnet !== undefined) return `has addresses of this host's subnet ${formatPrefix(subnet)}; declare --cluster-cidr`;
  }
  const touched = addresses.overlapping(range);
  return touched && `has the address ${formatAddress(touched.prefix.address)} of a node`;
}

/** Whether the address is this node's to use inside a tunnel. */
type IsOf = (node: string, address: Address) => boolean;

interface ProvenEnds {
  /** By name of the node. */
  readonly ends: ReadonlyMap<string, ByFamily<TunnelEnd>>;
  readonly refused: readonly string[];
}

/**
 * Decides which tunnel addresses and MACs that nodes name for themselves can be believed (review, S1). A false one would lead another
 * node's packets, or those to any address of the world, to the node that names it. Pure.
 *
 * @param isOf the proof of an address. A MAC that is not the one that follows from the node's name holds as long as no other node has it,
 * by name or by its own word; otherwise the one that follows from the name counts, as if the node had named none
 */
export function proveTunnelEnds(nodes: readonly RoutedNode[], isOf: IsOf): ProvenEnds {
  const ends = new Map<string, Partial<Record<4 | 6, TunnelEnd>>>();
  const refused: string[] = [];
  for (const family of FAMILIES) {
    const bearers = bearersOfMacs(nodes, family);
    for (const { name, claims } of nodes) {
      const proven = claims.tunnels[family]?.prove(({ address, mac }): TunnelEnd | undefined => {
        if (!isOf(name, address)) {
          refused.push(`node ${name} names ${formatAddress(address)} as its end of the tunnel, and nothing says that it is`);
          return undefined;
        }
        if (mac === undefined || mac === tunnelMac(name, family)) return { address };
        if (isAssignableMac(mac) && bearers.get(mac)?.size === 1) return { address, mac };
        refused.push(`node ${name} names the MAC ${mac}, which is another node's or no interface's`);
        return { address };
      });
      if (proven !== undefined) ends.set(name, { ...ends.get(name), [family]: proven });
    }
  }
  return { ends, refused };
}

/** Makes the proof of blocks mode: the store has allocated the address to one node, as its end of a tunnel. */
export function isAllocatedBy(blocks: readonly RoutedBlock[]): IsOf {
  const users = new Map(blocks.flatMap(({ tunnelEnds }) => tunnelEnds.map(({ address, node }) => [formatAddress(address), node])));
  return (node, address) => users.get(formatAddress(address)) === node;
}

function bearersOfMacs(nodes: readonly RoutedNode[], family: 4 | 6): ReadonlyMap<string, ReadonlySet<string>> {
  const bearers = new Map<string, Set<string>>();
  const note = (mac: string, name: string) => bearers.getOrInsertComputed(mac, () => new Set()).add(name);
  for (const { name, claims } of nodes) {
    note(tunnelMac(name, family), name);
    claims.tunnels[family]?.prove(({ mac }) => mac !== undefined && note(mac, name));
  }
  return bearers;
}
