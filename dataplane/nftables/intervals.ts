/** Prefixes as the kernel's interval sets hold them: intervals that neither overlap nor touch, each as its two edges. */
import { bytesOf, type Family, maskPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import type { Edge } from "./message.ts";

/** The edges of the intervals that the prefixes of one family cover, in order. An interval up to the last address of all has no end. */
export function edgesOf(family: Family, prefixes: readonly Prefix[]): Edge[] {
  const limit = 1n << (family === 4 ? 32n : 128n);
  const intervals = prefixes
    .filter(({ address }) => address.family === family)
    .map((prefix) => {
      const start = maskPrefix(prefix).address.value;
      return { start, end: start + sizeOf(prefix) };
    })
    .sort((a, b) => (a.start < b.start ? -1 : a.start > b.start ? 1 : 0));
  const merged: { start: bigint; end: bigint }[] = [];
  for (const { start, end } of intervals) {
    const last = merged.at(-1);
    if (last === undefined || start > last.end) merged.push({ start, end });
    else if (end > last.end) last.end = end;
  }
  const key = (value: bigint) => bytesOf({ family, value });
  return merged.flatMap(({ start, end }) => [{ key: key(start), isEnd: false }, ...(end < limit ? [{ key: key(end), isEnd: true }] : [])]);
}
