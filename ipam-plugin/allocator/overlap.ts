/**
 * Keeps blocks apart: no new block covers, or lies within, another one, whatever block sizes the pools have had. A pool whose block size was
 * changed, or that was made again with another, goes on serving from the blocks that it has.
 */

import { type Address, maskPrefix, type Prefix, parsePrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { prefixOf } from "./block.ts";
import type { Operation } from "./operation.ts";

/**
 * Finds what stands in the way of a new block, in lists that are read now; the caller has written its affinity for the block before.
 *
 * Every claim writes its affinity, then lists, then makes the block: of two claims of overlapping blocks at least one lists the affinity of
 * the other, and gives way. Affinities are listed first, because a block that loses its affinity in between is among the blocks.
 * @returns CIDR of the block, or of the affinity whose block may be on its way
 */
export async function findOverlap(operation: Operation, cidr: string): Promise<string | undefined> {
  const prefix = prefixOf(cidr);
  const { affinities, blocks } = operation.datastore;
  const claimed = (await affinities.listAll()).map(({ value }) => value.cidr);
  return overlapFinder([...(await blocks.listCidrs()), ...claimed], prefix.length)(prefix);
}

/** Prepares the question which block of another size overlaps with a place for a block of prefix length `length`. */
export function overlapFinder(cidrs: readonly string[], length: number): (place: Prefix) => string | undefined {
  /** Larger blocks by prefix length and first address; smaller ones by the place that holds them. */
  const byLength = new Map<number, Map<string, string>>();
  for (const cidr of cidrs) {
    const prefix = parsePrefix(cidr);
    if (prefix === undefined || prefix.length === length) continue;
    const shorter = Math.min(prefix.length, length);
    byLength.getOrInsertComputed(shorter, () => new Map()).set(keyAt(prefix.address, shorter), cidr);
  }
  return ({ address }) => {
    for (const [shorter, places] of byLength) {
      const found = places.get(keyAt(address, shorter));
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/**
 * Refuses blocks that overlap, before they are made in another store.
 * @throws TortieError `blocks-overlap`
 */
export function refuseOverlaps(cidrs: readonly string[]): void {
  for (const length of new Set(cidrs.map((cidr) => prefixOf(cidr).length))) {
    const find = overlapFinder(cidrs, length);
    for (const cidr of cidrs) {
      const other = prefixOf(cidr).length === length ? find(prefixOf(cidr)) : undefined;
      if (other !== undefined) throw overlapError(cidr, other);
    }
  }
}

function keyAt({ family, value }: Address, length: number): string {
  return `${family}:${maskPrefix({ address: { family, value }, length }).address.value}`;
}

export function overlapError(cidr: string, other: string): TortieError {
  return new TortieError("blocks-overlap", `block ${cidr} would overlap with block ${other}, which has another size`);
}
