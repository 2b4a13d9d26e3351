/** The list of attributes of a block: shared by equal allocations, without entries that nobody refers to (I§2.4). */
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";

/** The list with `attribute` in it, at `index`: an equal one is shared. */
export function withAttribute(
  attributes: readonly AllocationAttribute[],
  attribute: AllocationAttribute,
): { readonly attributes: readonly AllocationAttribute[]; readonly index: number } {
  const index = attributes.findIndex((other) => isEqual(other, attribute));
  return index >= 0 ? { attributes, index } : { attributes: [...attributes, attribute], index: attributes.length };
}

/**
 * Drops attributes without allocation and numbers the rest anew, order kept. An allocation whose attribute does not exist gets
 * an empty one, so that a later attribute cannot slip under it.
 */
export function compacted(block: Block): Block {
  const places = new Map<number, number>();
  const used = new Set(block.allocations);
  const attributes = block.attributes.filter((_, index) => {
    if (used.has(index)) places.set(index, places.size);
    return used.has(index);
  });
  let unknown: number | undefined;
  const allocations = block.allocations.map((index) => {
    if (index === null) return null;
    const place = places.get(index);
    if (place !== undefined) return place;
    unknown ??= attributes.push({}) - 1;
    return unknown;
  });
  return { ...block, allocations, attributes };
}

export function isSameHolder(a: AllocationAttribute | undefined, b: AllocationAttribute | undefined): boolean {
  return a !== undefined && b !== undefined && isEqual(a, b);
}

function isEqual(a: AllocationAttribute, b: AllocationAttribute): boolean {
  return (
    a.handleId === b.handleId &&
    a.releasedAt === b.releasedAt &&
    areEqual(a.activeOwner, b.activeOwner) &&
    areEqual(a.alternateOwner, b.alternateOwner)
  );
}

function areEqual(a: Readonly<Record<string, string>> = {}, b: Readonly<Record<string, string>> = {}): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}
