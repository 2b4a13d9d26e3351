/**
 * Parses addresses and prefixes of both families as strictly as Go's `net` package, prints them, and counts with them. ipaddr.js would
 * cost half a millisecond of every call to load (docs/project/decisions.md); the tests compare with it.
 */

/** An address with a prefix length; host bits are kept (the CNI result of an IPAM plugin has them, I§1.6). */
export interface Prefix {
  readonly address: Address;
  readonly length: number;
}

/** Counts the bits of an address: 32 or 128. */
export function bitsOf(family: Family): number {
  return family === 4 ? 32 : 128;
}

/**
 * Parses one address the way Go's net.ParseIP does: four decimal parts without leading zeros, or RFC 4291 text without a zone;
 * an IPv4-mapped IPv6 address is IPv4 (I§1.4, recordings ip-text-*).
 * @returns `undefined` when the text is no address
 */
export function parseAddress(text: string): Address | undefined {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

/** Writes the canonical text: dotted decimal, or RFC 5952. */
export function formatAddress(address: Address): string {
  return address.family === 4 ? bytesOf(address).join(".") : formatIpv6(address);
}

/**
 * Parses "address/length"; host bits are kept.
 * @returns `undefined` when the text is no prefix
 */
export function parsePrefix(text: string): Prefix | undefined {
  const slash = text.indexOf("/");
  if (slash < 0) return undefined;
  const address = parseAddress(text.slice(0, slash));
  const length = text.slice(slash + 1);
  if (address === undefined || !/^(0|[1-9]\d{0,2})$/.test(length) || Number(length) > bitsOf(address.family)) return undefined;
  return { address, length: Number(length) };
}

export function formatPrefix(prefix: Prefix): string {
  return `${formatAddress(prefix.address)}/${prefix.length}`;
}

/** Makes the name that Calico gives to objects of a CIDR (I§2.2), "10-244-0-0-16": every store lists them in its order. */
export function cidrKey(cidr: string): string {
  return cidr.replaceAll(".", "-").replaceAll(":", "-").replaceAll("/", "-");
}

/** Reads back what `cidrKey` has written: "10-40-0-8-29". */
export function cidrOfKey(key: string): string {
  const at = key.lastIndexOf("-");
  const isIpv4 = /^\d+-\d+-\d+-\d+-\d+$/.test(key);
  return `${key.slice(0, at).replaceAll("-", isIpv4 ? "." : ":")}/${key.slice(at + 1)}`;
}

/** Tells whether both are the same address, or neither is there. */
export function isSameAddress(one: Address | undefined, other: Address | undefined): boolean {
  return one?.family === other?.family && one?.value === other?.value;
}

/** Makes the prefix of one address: /32 or /128. */
export function hostPrefix(address: Address): Prefix {
  return { address, length: bitsOf(address.family) };
}

/** Cuts the host bits of a prefix. */
export function maskPrefix(prefix: Prefix): Prefix {
  const host = hostBits(prefix);
  return { address: { family: prefix.address.family, value: (prefix.address.value >> host) << host }, length: prefix.length };
}

/** Tells whether `address` lies inside `prefix` (same family). */
export function contains(prefix: Prefix, address: Address): boolean {
  if (prefix.address.family !== address.family) return false;
  const host = hostBits(prefix);
  return prefix.address.value >> host === address.value >> host;
}

/** Tells whether every address of `inner` lies inside `outer`. */
export function covers(outer: Prefix, inner: Prefix): boolean {
  return inner.length >= outer.length && contains(outer, inner.address);
}

/** Tells whether any address lies inside both. */
export function overlaps(one: Prefix, other: Prefix): boolean {
  return covers(one, other) || covers(other, one);
}

/** Counts the addresses of a prefix. */
export function sizeOf(prefix: Prefix): bigint {
  return 1n << hostBits(prefix);
}

/** Finds the address `offset` places after the first of `prefix`. */
export function addressAt(prefix: Prefix, offset: number | bigint): Address {
  return { family: prefix.address.family, value: maskPrefix(prefix).address.value + BigInt(offset) };
}

/** Writes the bytes in network order: 4 or 16. */
export function bytesOf(address: Address): Uint8Array {
  const bytes = new Uint8Array(bitsOf(address.family) / 8);
  let rest = address.value;
  for (let i = bytes.length - 1; i >= 0; i--) {
    bytes[i] = Number(rest & 0xffn);
    rest >>= 8n;
  }
  return bytes;
}

function hostBits(prefix: Prefix): bigint {
  return BigInt(bitsOf(prefix.address.family) - prefix.length);
}

export type Family = 4 | 6;

export interface Address {
  readonly family: Family;
  /** The bits in network byte order as one number. */
  readonly value: bigint;
}

const GROUPS = 8;
/** Without a leading zero. */
const DECIMAL = /^(0|[1-9]\d{0,2})$/;
const HEXADECIMAL = /^[0-9a-fA-F]{1,4}$/;
/** The 96 bits before an IPv4 address in IPv6 clothes (RFC 4291, 2.5.5.2). */
const MAPPED = 0xffffn;

/** Reads four decimal parts without leading zeros. */
function parseIpv4(text: string): Address | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  let value = 0n;
  for (const part of parts) {
    if (!DECIMAL.test(part) || Number(part) > 255) return undefined;
    value = (value << 8n) | BigInt(part);
  }
  return { family: 4, value };
}

/** Reads RFC 4291, 2.2, without a zone. An IPv4-mapped address is IPv4. */
function parseIpv6(text: string): Address | undefined {
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

/** Writes RFC 5952: lower case, no leading zeros, the first of the longest runs of two or more zero groups shortened. */
function formatIpv6({ value }: Address): string {
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

/** 169.254.0.0/16 and fe80::/10 (RFC 3927, RFC 4291): also those of a cloud's metadata, and of the gateway of Calico's pods. */
export const LINK_LOCAL: readonly Prefix[] = [
  { address: { family: 4, value: 0xa9fe_0000n }, length: 16 },
  { address: { family: 6, value: 0xfe80n << 112n }, length: 10 },
];

/** Besides: "this network", loopback, multicast (RFC 1122, RFC 5771, RFC 4291); ::/96 holds the loopback and unspecified address. */
export const NEVER_A_WORKLOAD: readonly Prefix[] = [
  ...LINK_LOCAL,
  { address: { family: 4, value: 0n }, length: 8 },
  { address: { family: 4, value: 127n << 24n }, length: 8 },
  { address: { family: 4, value: 224n << 24n }, length: 4 },
  { address: { family: 6, value: 0n }, length: 96 },
  { address: { family: 6, value: 0xff00n << 112n }, length: 8 },
];
