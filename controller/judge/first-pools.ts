/**
 * Plans the pools that a new cluster begins with, from `--ipv4-pool` and `--ipv6-pool`. Nothing is guessed: a range is what the option
 * names, what kubeadm was told, or exactly what nodes have; where none of them says anything, the answer is what to set.
 */
import {
  bitsOf,
  cidrKey,
  contains,
  covers,
  type Family,
  formatAddress,
  formatPrefix,
  maskPrefix,
  overlaps,
  type Prefix,
  parsePrefix,
} from "../../lib/addresses/address.ts";
import type { NodeView } from "../view/cluster-view.ts";

/** A pool that is there, whoever made it. */
export interface ExistingPool {
  readonly name: string;
  readonly cidr: string;
  /** By the controller, as its label says. */
  readonly isOurs: boolean;
}

export interface PoolFacts {
  readonly family: Family;
  /** `none`, `auto` or a CIDR. */
  readonly option: string;
  /** `ClusterConfiguration.networking.podSubnet` of kubeadm: CIDRs with commas between them, empty without kubeadm. */
  readonly podSubnet: string;
  /** By name. */
  readonly nodes: ReadonlyMap<string, NodeView>;
  /** Of both families, those that are being deleted included. */
  readonly pools: readonly ExistingPool[];
}

export interface PlannedPool {
  readonly name: string;
  readonly cidr: string;
  readonly blockSize: number;
  /** Where the range comes from, for people. */
  readonly source: string;
}

interface PoolPlan {
  readonly pools: readonly PlannedPool[];
  /** Why a pool that is asked for is not made, and what to set. */
  readonly refusal?: string;
}

const NOTHING: PoolPlan = { pools: [] };

/** Addresses of a block: 64, as Calico's default (I§2.7); a pool that is smaller is one block. */
const BLOCK_BITS = 6;

/**
 * Makes pools where none of the family is there. A range of a node that no pool of ours covers is added later, so that a cluster which
 * grows does not run out. A pool that somebody else has made, Calico's included, means that the pools are theirs.
 */
export function planPools(facts: PoolFacts): PoolPlan {
  const { family, option, nodes } = facts;
  const pools = facts.pools.flatMap((pool) => {
    const prefix = parsePrefix(pool.cidr);
    return prefix?.address.family === family ? [{ ...pool, prefix }] : [];
  });
  if (option === "none" || pools.some(({ isOurs }) => !isOurs)) return NOTHING;
  const found = option === "auto" ? automaticRanges(facts) : optionsRange(facts);
  if ("refusal" in found) return { pools: [], refusal: found.refusal };
  const { ranges, source, isOfNodes } = found;
  // Only nodes' ranges grow; any other pool is made once, and is the administrator's then.
  if (pools.length > 0 && !isOfNodes) return NOTHING;
  const missing = ranges.filter((range) => !pools.some(({ prefix }) => covers(prefix, range)));
  for (const range of missing) {
    const cidr = formatPrefix(range);
    const rival = pools.find(({ prefix }) => overlaps(prefix, range));
    if (rival !== undefined)
      return { pools: [], refusal: `no pool ${cidr} (${source}) is made: it overlaps with pool ${rival.name} (${rival.cidr})` };
    for (const [name, { addresses }] of nodes) {
      const inside = addresses.find((address) => contains(range, address));
      if (inside !== undefined)
        return { pools: [], refusal: `no pool ${cidr} (${source}) is made: ${formatAddress(inside)} inside is an address of node ${name}` };
    }
  }
  return {
    pools: missing.map((range) => ({
      name: isOfNodes ? nameOfRange(range) : `default-ipv${family}`,
      cidr: formatPrefix(range),
      blockSize: Math.max(bitsOf(family) - BLOCK_BITS, range.length),
      source,
    })),
  };
}

/** Ranges without host bits, none inside another. */
interface Ranges {
  readonly ranges: readonly Prefix[];
  readonly source: string;
  readonly isOfNodes: boolean;
}

interface Refusal {
  readonly refusal: string;
}

function optionsRange({ family, option }: PoolFacts): Ranges | Refusal {
  const prefix = parsePrefix(option);
  if (prefix?.address.family !== family) return { refusal: `--ipv${family}-pool=${option} is no IPv${family} range: set ADDRESS/LENGTH` };
  return { ranges: [maskPrefix(prefix)], source: `--ipv${family}-pool`, isOfNodes: false };
}

function automaticRanges({ family, podSubnet, nodes }: PoolFacts): Ranges | Refusal {
  const source = "kubeadm's podSubnet";
  const subnets = podSubnet.split(",").flatMap((text) => (text.trim() === "" ? [] : [text.trim()]));
  const bad = subnets.find((text) => parsePrefix(text) === undefined);
  if (bad !== undefined) return { refusal: `${source} has "${bad}", which is no range: set --ipv${family}-pool=CIDR` };
  const ofFamily = (texts: readonly string[]) =>
    texts.flatMap((text) => {
      const prefix = parsePrefix(text);
      return prefix?.address.family === family ? [maskPrefix(prefix)] : [];
    });
  const [subnet, ...others] = ofFamily(subnets);
  if (others.length > 0) return { refusal: `${source} has several IPv${family} ranges (${podSubnet}): set --ipv${family}-pool=CIDR` };
  if (subnet !== undefined) return { ranges: [subnet], source, isOfNodes: false };
  const ranges = aggregate([...nodes.values()].flatMap(({ ranges: texts }) => ofFamily(texts)));
  if (ranges.length > 0) return { ranges, source: "spec.podCIDRs of nodes", isOfNodes: true };
  return {
    refusal: `no IPv${family} pool is made: neither kubeadm's podSubnet nor spec.podCIDRs of a node names a range; set --ipv${family}-pool=CIDR`,
  };
}

/** Finds the fewest prefixes that have exactly the addresses of the given ones. @param prefixes of one family, without host bits */
export function aggregate(prefixes: readonly Prefix[]): readonly Prefix[] {
  const sorted = prefixes.toSorted((a, b) => compare(a.address.value, b.address.value) || a.length - b.length);
  const result: Prefix[] = [];
  for (const prefix of sorted) {
    let next = prefix;
    for (let last = result.at(-1); last !== undefined; last = result.at(-1)) {
      if (covers(last, next)) {
        next = last;
      } else {
        const parent = maskPrefix({ address: last.address, length: last.length - 1 });
        if (last.length === 0 || last.length !== next.length || !covers(parent, next)) break;
        next = parent;
      }
      result.pop();
    }
    result.push(next);
  }
  return result;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Makes a name of an object: "nodes-10-244-0-0-24", "nodes-fd00-10---64". */
function nameOfRange(range: Prefix): string {
  return `nodes-${cidrKey(formatPrefix(range))}`;
}
