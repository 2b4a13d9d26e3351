/** Prefixes as the intervals of a set. */
import { bytesOf, type Family, maskPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import type { Request } from "../netlink/socket.ts";
import { FAMILIES } from "./expressions.ts";
import { type Edge, newElements, newIntervalSet, type TableFamily } from "./message.ts";

/** Elements of one message: an attribute ends at 64 KiB, and an IPv6 element takes 44 bytes. */
const ELEMENTS_PER_MESSAGE = 1000;

/** Creates the set with the prefixes of its family. */
export function setRequests(table: TableFamily, tableName: string, family: Family, name: string, prefixes: readonly Prefix[]): Request[] {
  const edges = edgesOf(family, prefixes);
  const parts = Array.from({ length: Math.ceil(edges.length / ELEMENTS_PER_MESSAGE) }, (_, part) =>
    edges.slice(part * ELEMENTS_PER_MESSAGE, (part + 1) * ELEMENTS_PER_MESSAGE),
  );
  const { keyType, length } = FAMILIES[family];
  return [newIntervalSet(table, tableName, name, keyType, length), ...parts.map((part) => newElements(table, tableName, name, part))];
}

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
