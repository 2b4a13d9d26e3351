/**
 * Which ranges of pods' addresses the nodes have (host scope; review, S1). `spec.podCIDRs` counts, which no node may write. What a node
 * says by an annotation counts inside of that, or, where the cluster gives no ranges, when it is nobody else's: a false one would lead
 * others' traffic to the node. Pure.
 */
import {
  contains,
  covers,
  type Family,
  formatAddress,
  formatPrefix,
  hostPrefix,
  overlaps,
  type Prefix,
} from "../../../lib/addresses/address.ts";
import { NEVER_A_WORKLOAD } from "../../../lib/addresses/special.ts";
import { FAMILIES, type RoutedNode } from "../model.ts";
import { DisjointPrefixes } from "./disjoint.ts";

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

export interface ProvenRanges {
  /** By name of the node, older nodes first. */
  readonly ranges: ReadonlyMap<string, readonly Prefix[]>;
  readonly refused: readonly string[];
}

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

/** Of two Node objects the one that was made first, which the API server dates. */
function compareAge(one: RoutedNode, other: RoutedNode): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.name < other.name ? -1 : 1;
}

/** An annotation may say that the node uses a part of what it was given. */
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

/** Addresses of nodes are their own word too: one that lies where pods are would only take that range from another node. */
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

/** @returns the rest of the sentence that names the range; `undefined`: it is no workload's or node's */
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
