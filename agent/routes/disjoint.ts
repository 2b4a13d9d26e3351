/** Prefixes that have no address in common, found by their addresses: a cluster has hundreds, and each is compared with all. */
import { bitsOf, type Family, maskPrefix, type Prefix } from "../../lib/addresses/address.ts";

interface Entry<T> {
  readonly first: bigint;
  readonly last: bigint;
  readonly prefix: Prefix;
  readonly value: T;
}

export class DisjointPrefixes<T> {
  /** In the order of their addresses. */
  readonly #entries: Readonly<Record<Family, Entry<T>[]>> = { 4: [], 6: [] };

  /** Whoever comes first keeps its addresses. @returns the entry in the way, which stays alone; `undefined`: it was added */
  add(prefix: Prefix, value: T): { readonly prefix: Prefix; readonly value: T } | undefined {
    const { entries, at, found } = this.#look(prefix);
    if (found === undefined) entries.splice(at, 0, { ...boundsOf(prefix), prefix, value });
    return found;
  }

  /** One that has addresses of `prefix`. */
  overlapping(prefix: Prefix): { readonly prefix: Prefix; readonly value: T } | undefined {
    return this.#look(prefix).found;
  }

  #look(prefix: Prefix) {
    const entries = this.#entries[prefix.address.family];
    const { first, last } = boundsOf(prefix);
    let [at, end] = [0, entries.length];
    while (at < end) {
      const middle = (at + end) >> 1;
      const entry = entries[middle];
      if (entry !== undefined && entry.last < first) at = middle + 1;
      else end = middle;
    }
    const next = entries[at];
    return { entries, at, found: next !== undefined && next.first <= last ? next : undefined };
  }
}

function boundsOf(prefix: Prefix): { readonly first: bigint; readonly last: bigint } {
  const first = maskPrefix(prefix).address.value;
  return { first, last: first + (1n << BigInt(bitsOf(prefix.address.family) - prefix.length)) - 1n };
}
