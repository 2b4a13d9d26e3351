/**
 * Knows the addresses that must not be handed out automatically (I§2.8): the union of all reservations, as sorted ranges that neither
 * overlap nor touch, so that nested and repeated CIDRs count once.
 */
import { type Family, hostPrefix, maskPrefix, parseAddress, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import type { IPReservation } from "../../lib/datastore/resources.ts";

/** Has first and last address, as numbers. */
interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

export class Reservations {
  readonly #ranges: Readonly<Record<Family, readonly Range[]>>;

  /** Entries that are neither a CIDR nor an address are skipped (I§2.8). */
  constructor(reservations: readonly IPReservation[]) {
    const found: Record<Family, Range[]> = { 4: [], 6: [] };
    for (const { reservedCIDRs } of reservations) {
      for (const text of reservedCIDRs) {
        const address = parseAddress(text.trim());
        const prefix = address === undefined ? parsePrefix(text.trim()) : hostPrefix(address);
        if (prefix === undefined) continue;
        const first = maskPrefix(prefix).address.value;
        found[prefix.address.family].push({ first, last: first + sizeOf(prefix) - 1n });
      }
    }
    this.#ranges = { 4: united(found[4]), 6: united(found[6]) };
  }

  /** Tells whether nothing of the family is reserved: the common case, which callers check first because it is cheap. */
  isEmpty(family: Family): boolean {
    return this.#ranges[family].length === 0;
  }

  /** Returns the last address of the reserved range that holds `address`; `undefined` when it is not reserved. */
  reservedUntil(family: Family, address: bigint): bigint | undefined {
    return this.#ranges[family].find((range) => range.first <= address && address <= range.last)?.last;
  }

  /** Counts how many of the `size` addresses from `first` on are reserved. */
  countIn(family: Family, first: bigint, size: bigint): bigint {
    const last = first + size - 1n;
    let count = 0n;
    for (const range of this.#ranges[family]) {
      const from = range.first > first ? range.first : first;
      const to = range.last < last ? range.last : last;
      if (to >= from) count += to - from + 1n;
    }
    return count;
  }
}

/** Returns the larger one: Math.max does not take big integers. */
function later(a: bigint, b: bigint): bigint {
  return [a, b].reduce((latest, value) => (value > latest ? value : latest));
}

function united(ranges: Range[]): readonly Range[] {
  ranges.sort((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
  const result: Range[] = [];
  for (const range of ranges) {
    const previous = result.at(-1);
    if (previous !== undefined && range.first <= previous.last + 1n) {
      result[result.length - 1] = { first: previous.first, last: later(range.last, previous.last) };
    } else {
      result.push(range);
    }
  }
  return result;
}
