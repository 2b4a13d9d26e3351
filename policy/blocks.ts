/** Flattens overlapping address blocks with excepts into disjoint intervals, each with the blocks that hold all of it. */
import type { AddressInterval } from "../dataplane/packet-policy.ts";
import { type Address, bitsOf, type Family, type Prefix, sizeOf } from "../lib/addresses/address.ts";
import type { BlockPeer } from "./rules.ts";

/** An interval of addresses and the blocks that its addresses satisfy, by key, sorted. */
export interface FlatInterval extends Omit<AddressInterval, "class"> {
  readonly blocks: readonly string[];
}

type Span = Pick<FlatInterval, "first" | "last">;

/** Sorted by family and address; addresses in no block are in no interval. */
export function flatten(blocks: Iterable<BlockPeer>): readonly FlatInterval[] {
  const all = [...blocks];
  return ([4, 6] as const).flatMap((family) =>
    flattenFamily(
      family,
      all.filter(({ block }) => block.address.family === family),
    ),
  );
}

/** Finds the interval that holds an address. @param intervals as `flatten` returns them */
export function intervalOf(intervals: readonly FlatInterval[], { family, value }: Address): FlatInterval | undefined {
  let low = 0;
  let high = intervals.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const one = intervals[middle];
    if (one === undefined) return undefined;
    if (one.family < family || (one.family === family && one.last < value)) low = middle + 1;
    else high = middle;
  }
  const found = intervals[low];
  return found !== undefined && found.family === family && found.first <= value ? found : undefined;
}

/** The first and the last address of a prefix. */
function spanOf(prefix: Prefix): Span {
  return { first: prefix.address.value, last: prefix.address.value + sizeOf(prefix) - 1n };
}

function flattenFamily(family: Family, blocks: readonly BlockPeer[]): readonly FlatInterval[] {
  const begins = new Map<bigint, string[]>();
  const ends = new Map<bigint, string[]>();
  for (const block of blocks) {
    for (const { first, last } of spansOf(block)) {
      begins.getOrInsert(first, []).push(block.key);
      ends.getOrInsert(last + 1n, []).push(block.key);
    }
  }
  const cuts = [...new Set([...begins.keys(), ...ends.keys()])].sort((one, other) => (one < other ? -1 : 1));
  const inside = new Set<string>();
  const flat: FlatInterval[] = [];
  cuts.forEach((first, index) => {
    for (const key of ends.get(first) ?? []) inside.delete(key);
    for (const key of begins.get(first) ?? []) inside.add(key);
    const next = cuts[index + 1] ?? 1n << BigInt(bitsOf(family));
    if (inside.size > 0) flat.push({ family, first, last: next - 1n, blocks: [...inside].sort() });
  });
  return flat;
}

/** What is left of a block without its excepts, in order. Excepts may lie inside each other. */
function spansOf({ block, excepts }: BlockPeer): readonly Span[] {
  const { first, last } = spanOf(block);
  const holes = excepts.map(spanOf).sort((one, other) => (one.first < other.first ? -1 : one.first > other.first ? 1 : 0));
  const left: Span[] = [];
  let from = first;
  for (const hole of holes) {
    if (hole.first > from) left.push({ first: from, last: hole.first - 1n });
    if (hole.last >= from) from = hole.last + 1n;
  }
  if (from <= last) left.push({ first: from, last });
  return left;
}
