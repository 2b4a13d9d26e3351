/**
 * Addresses as text. Our own and not a library's: ipaddr.js costs half a millisecond of every ADD and DEL to load, a twentieth of the
 * whole (docs/decisions.md). It is the judge in the tests instead.
 */
import type { Address } from "./types.ts";

const GROUPS = 8;
/** Without a leading zero. */
const DECIMAL = /^(0|[1-9]\d{0,2})$/;
const HEXADECIMAL = /^[0-9a-fA-F]{1,4}$/;
/** The 96 bits before an IPv4 address in IPv6 clothes (RFC 4291, 2.5.5.2). */
const MAPPED = 0xffffn;

/** Four decimal parts without leading zeros. */
export function parseIpv4(text: string): Address | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  let value = 0n;
  for (const part of parts) {
    if (!DECIMAL.test(part) || Number(part) > 255) return undefined;
    value = (value << 8n) | BigInt(part);
  }
  return { family: 4, value };
}

/** RFC 4291, 2.2, without a zone. An IPv4-mapped address is IPv4. */
export function parseIpv6(text: string): Address | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const isShortened = halves.length === 2;
  const head = parseGroups(halves[0] ?? "", !isShortened);
  const tail = isShortened ? parseGroups(halves[1] ?? "", true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const missing = GROUPS - head.length - tail.length;
  // "::" stands for one group of zeros at least.
  if (isShortened ? missing < 1 : missing !== 0) return undefined;
  const value = (bitsOfGroups(head) << BigInt(16 * (GROUPS - head.length))) | bitsOfGroups(tail);
  return value >> 32n === MAPPED ? { family: 4, value: value & 0xffff_ffffn } : { family: 6, value };
}

function bitsOfGroups(groups: readonly number[]): bigint {
  let bits = 0n;
  for (const group of groups) bits = (bits << 16n) | BigInt(group);
  return bits;
}

/** Groups of 16 bits; the last two may be written as an IPv4 address where the text ends. */
function parseGroups(text: string, mayEndInIpv4: boolean): number[] | undefined {
  if (text === "") return [];
  const groups: number[] = [];
  const parts = text.split(":");
  for (const [index, part] of parts.entries()) {
    if (HEXADECIMAL.test(part)) {
      groups.push(Number.parseInt(part, 16));
      continue;
    }
    const ipv4 = mayEndInIpv4 && index === parts.length - 1 ? parseIpv4(part) : undefined;
    if (ipv4 === undefined) return undefined;
    groups.push(Number(ipv4.value >> 16n), Number(ipv4.value & 0xffffn));
  }
  return groups;
}

/** RFC 5952: lower case, no leading zeros, the first of the longest runs of two or more zero groups shortened. */
export function formatIpv6({ value }: Address): string {
  const groups: number[] = [];
  for (let shift = 16 * (GROUPS - 1); shift >= 0; shift -= 16) groups.push(Number((value >> BigInt(shift)) & 0xffffn));
  const run = longestZeroRun(groups);
  const text = (from: number, to: number) =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(":");
  return run.length < 2 ? text(0, GROUPS) : `${text(0, run.start)}::${text(run.start + run.length, GROUPS)}`;
}

function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let longest = { start: 0, length: 0 };
  let start = 0;
  for (let at = 0; at <= groups.length; at++) {
    if (groups[at] === 0) continue;
    if (at - start > longest.length) longest = { start, length: at - start };
    start = at + 1;
  }
  return longest;
}
