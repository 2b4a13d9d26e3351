/** The ranges of a node, one a family at most. */
import { familyOf, type NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { type Family, formatPrefix } from "../../lib/addresses/address.ts";
import { describeRange, type SourcedRange } from "./sources.ts";

export type Ranges = Readonly<Partial<Record<Family, SourcedRange>>>;

/** IPv4 first. */
export function entries(ranges: Ranges): readonly (readonly [Family, SourcedRange])[] {
  return ([4, 6] as const).flatMap((family) => {
    const range = ranges[family];
    return range === undefined ? [] : [[family, range] as const];
  });
}

export function isSame(one: Ranges, other: Ranges): boolean {
  const text = (ranges: Ranges) =>
    entries(ranges)
      .map(([family, range]) => `${family} ${describeRange(range)}`)
      .join();
  return text(one) === text(other);
}

/** Whether addresses are given of the automatic ones among `ranges`: the record says so of this boot. */
export function hasAutomatic(record: NodeRecord | undefined, ranges: Ranges): boolean {
  if (record === undefined) return false;
  return entries(ranges).every(([family, { cidr, source }]) => {
    const known = familyOf(record, family);
    return source !== "automatic" || (known?.source === source && formatPrefix(known.cidr) === formatPrefix(cidr));
  });
}
