/** Addresses and prefixes of both families: parsing as strict as Go's `net` package, canonical text, arithmetic. */
import { formatIpv6, parseIpv4, parseIpv6 } from "./text.ts";
import type { Address, Family } from "./types.ts";

export type { Address, Family } from "./types.ts";

/** An address with a prefix length; host bits are kept (the CNI result of an IPAM plugin has them, I§1.6). */
export interface Prefix {
  readonly address: Address;
  readonly length: number;
}

/** 32 or 128. */
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

/** Canonical text: dotted decimal, or RFC 5952. */
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

/** The prefix of one address: /32 or /128. */
export function hostPrefix(address: Address): Prefix {
  return { address, length: bitsOf(address.family) };
}

/** The prefix with its host bits cut. */
export function maskPrefix(prefix: Prefix): Prefix {
  const host = hostBits(prefix);
  return { address: { family: prefix.address.family, value: (prefix.address.value >> host) << host }, length: prefix.length };
}

/** Whether `address` lies inside `prefix` (same family). */
export function contains(prefix: Prefix, address: Address): boolean {
  const host = hostBits(prefix);
  return prefix.address.family === address.family && prefix.address.value >> host === address.value >> host;
}

/** Whether every address of `inner` lies inside `outer`. */
export function covers(outer: Prefix, inner: Prefix): boolean {
  return inner.length >= outer.length && contains(outer, inner.address);
}

/** How many addresses a prefix has. */
export function sizeOf(prefix: Prefix): bigint {
  return 1n << hostBits(prefix);
}

/** The address `offset` places after the first of `prefix`. */
export function addressAt(prefix: Prefix, offset: number | bigint): Address {
  return { family: prefix.address.family, value: maskPrefix(prefix).address.value + BigInt(offset) };
}

/** Network byte order: 4 or 16 bytes. */
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
