/**
 * Says which addresses of a node's CIDR can be given, as offsets from the first usable one (A§4.1), and which the next grant tries (A§4.2).
 * Pure: whether an address is still free is for link(2) to say.
 */
import { type Address, bitsOf, type Family, formatPrefix, maskPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";

/** Limits an IPv6 range with more host bits to its start: a bitmap of all of it would have no end. */
const MOST_IPV6_HOST_BITS = 16;
/** Limits an IPv4 range: one of 2^31 addresses and more counts as one without room (A§4.1: /0 and /1). */
const MOST_IPV4_HOST_BITS = 30;

export interface HostRange {
  readonly family: Family;
  readonly cidr: Prefix;
  /** How many addresses can be given: all but the network and the broadcast address. 0 for /31, /32, /127, /128, /0 and /1. */
  readonly size: number;
}

/** @param prefix bits after its length are cut, as Go's ParseCIDR does (A§1.2) */
export function hostRange(prefix: Prefix): HostRange {
  const cidr = maskPrefix(prefix);
  return { family: cidr.address.family, cidr, size: sizeFor(cidr) };
}

function sizeFor({ address: { family }, length }: Prefix): number {
  const hostBits = bitsOf(family) - length;
  if (length < 2 || hostBits < 2) return 0;
  return 2 ** Math.min(hostBits, family === 4 ? MOST_IPV4_HOST_BITS : MOST_IPV6_HOST_BITS) - 2;
}

/** Returns the address at `offset`; offset 0 is the one after the network address. */
export function addressOf({ cidr, family }: HostRange, offset: number): Address {
  return { family, value: cidr.address.value + 1n + BigInt(offset) };
}

/** @returns `undefined` for an address that the range never gives: of another CIDR, the network or the broadcast address */
export function offsetOf({ cidr, family, size }: HostRange, address: Address): number | undefined {
  if (address.family !== family) return undefined;
  const offset = address.value - cidr.address.value - 1n;
  return offset >= 0n && offset < BigInt(size) ? Number(offset) : undefined;
}

export function formatRange({ cidr }: Pick<HostRange, "cidr">): string {
  return formatPrefix(cidr);
}

/** Offsets from `start` to before `end`. */
export interface Interval {
  readonly start: number;
  readonly end: number;
}

/** Computes what the prefixes take of a range, in ascending order and without overlaps. */
export function intervalsWithin(range: HostRange, prefixes: readonly Prefix[]): readonly Interval[] {
  const clipped = prefixes.flatMap((prefix) => clip(range, prefix)).sort((one, other) => one.start - other.start);
  const merged: Interval[] = [];
  for (const interval of clipped) {
    const last = merged.at(-1);
    if (last === undefined || interval.start > last.end) merged.push(interval);
    else merged[merged.length - 1] = { start: last.start, end: Math.max(last.end, interval.end) };
  }
  return merged;
}

/** Finds the interval that an offset lies in. */
export function intervalAt(intervals: readonly Interval[], offset: number): Interval | undefined {
  return intervals.find(({ start, end }) => offset >= start && offset < end);
}

function clip({ cidr, family, size }: HostRange, prefix: Prefix): Interval[] {
  if (prefix.address.family !== family) return [];
  const first = maskPrefix(prefix).address.value - cidr.address.value - 1n;
  const start = Number(first < 0n ? 0n : first);
  const last = first + sizeOf(prefix);
  const end = Number(last > BigInt(size) ? BigInt(size) : last);
  return start < end ? [{ start, end }] : [];
}

/** Holds a set of offsets, one bit each (A§4.1). Words without a bit are not stored, so a /2 costs no more than what is granted from it. */

const BITS = 32;
const FULL = 0xffff_ffff;

export class Bitmap {
  readonly #words = new Map<number, number>();
  #count = 0;

  constructor(offsets: Iterable<number> = []) {
    for (const offset of offsets) this.add(offset);
  }

  /** Counts how many bits are set. */
  get count(): number {
    return this.#count;
  }

  has(offset: number): boolean {
    return (this.#wordOf(offset) & bitOf(offset)) !== 0;
  }

  add(offset: number): void {
    if (this.has(offset)) return;
    this.#words.set(Math.floor(offset / BITS), (this.#wordOf(offset) | bitOf(offset)) >>> 0);
    this.#count += 1;
  }

  /** Finds the first clear bit from `from` to before `end`; whole words that are full are passed in one step. */
  firstClear(from: number, end: number): number | undefined {
    for (let offset = from; offset < end; ) {
      if (offset % BITS === 0 && this.#wordOf(offset) === FULL) {
        offset += BITS;
        continue;
      }
      if (!this.has(offset)) return offset;
      offset += 1;
    }
    return undefined;
  }

  #wordOf(offset: number): number {
    return this.#words.get(Math.floor(offset / BITS)) ?? 0;
  }
}

function bitOf(offset: number): number {
  return 1 << (offset % BITS);
}

export const STRATEGIES = ["random", "contiguous", "next"] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** Has what is known of a range at the moment of choosing. */
export interface Occupancy {
  readonly size: number;
  /** Granted, whoever the owner is. */
  readonly taken: Bitmap;
  /** Never given: of the node itself, or routed elsewhere (A§4.5). Takes no bit of `taken`. */
  readonly excluded: readonly Interval[];
  /** Released a short while ago, with the time of the release: given only when nothing else is free. */
  readonly cooling: ReadonlyMap<number, number>;
  /** The offset of the latest grant, for the strategy `next`. */
  readonly latest: number | undefined;
}

/**
 * @param random numbers in [0, 1)
 * @returns `undefined` when the range is full
 */
export function chooseOffset(range: Occupancy, strategy: Strategy, random: () => number): number | undefined {
  if (range.taken.count >= range.size) return undefined;
  const start = startOf(range, strategy, random);
  return firstFree(range, start, range.size) ?? firstFree(range, 0, start) ?? longestReleased(range);
}

function startOf({ size, latest }: Occupancy, strategy: Strategy, random: () => number): number {
  switch (strategy) {
    case "random":
      return Math.floor(random() * size);
    case "contiguous":
      return 0;
    case "next":
      return latest === undefined ? 0 : (latest + 1) % size;
  }
}

function firstFree({ taken, excluded, cooling }: Occupancy, from: number, end: number): number | undefined {
  for (let next = from; ; ) {
    const offset = taken.firstClear(next, end);
    if (offset === undefined) return undefined;
    const barred = intervalAt(excluded, offset);
    if (barred === undefined && !cooling.has(offset)) return offset;
    next = barred?.end ?? offset + 1;
  }
}

/** Finds the one whose former owner has been gone for the longest time. */
function longestReleased({ taken, excluded, cooling }: Occupancy): number | undefined {
  let best: { readonly offset: number; readonly releasedMs: number } | undefined;
  for (const [offset, releasedMs] of cooling) {
    if (taken.has(offset) || intervalAt(excluded, offset) !== undefined) continue;
    if (best === undefined || releasedMs < best.releasedMs) best = { offset, releasedMs };
  }
  return best?.offset;
}
