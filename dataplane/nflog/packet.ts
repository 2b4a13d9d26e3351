/**
 * Reads the beginning of a packet: addresses, protocol, ports and TCP flags. Whoever may send packets chooses these bytes, so a reader
 * never throws: what cannot be read is `undefined`.
 */
import type { Address, Family } from "../../lib/addresses/address.ts";
import { addressOf } from "../netlink/message.ts";

/** Protocol numbers (IANA, "Assigned Internet Protocol Numbers"). */
export const TCP = 6;
const UDP = 17;
const DCCP = 33;
const SCTP = 132;
const UDP_LITE = 136;
/** Begin with two ports of 16 bits each. */
const WITH_PORTS: readonly number[] = [TCP, UDP, DCCP, SCTP, UDP_LITE];

const HOP_BY_HOP = 0;
const ROUTING = 43;
const FRAGMENT = 44;
const AUTHENTICATION = 51;
const DESTINATION_OPTIONS = 60;
const MOBILITY = 135;
/** IPv6 headers that stand between the fixed header and the protocol (RFC 8200, 4). */
const EXTENSIONS: readonly number[] = [HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION_OPTIONS, MOBILITY];
/** Limits the extension headers that are skipped: an honest packet has three at most. */
const MOST_EXTENSIONS = 8;

const IPV4_HEADER = 20;
const IPV6_HEADER = 40;
const PORTS_BYTES = 4;
const TCP_FLAGS_AT = 13;
/** Low 13 bits of the field: which part of a datagram this is; 0 is the first one. */
const IPV4_OFFSET_MASK = 0x1fff;
/** The three low bits are no part of the offset (RFC 8200, 4.5). */
const IPV6_OFFSET_MASK = 0xfff8;

export interface PacketHeader {
  readonly source: Address;
  readonly destination: Address;
  /** IP protocol number. */
  readonly protocol: number;
  /** `undefined` for a protocol without ports, for later parts of a datagram, and where the bytes end before. */
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
  /** The byte of FIN, SYN, RST, PSH, ACK, URG, ECE, CWR, from the lowest bit (RFC 9293, 3.1); `undefined` when it is no TCP or was cut off. */
  readonly tcpFlags: number | undefined;
}

/** @param data the packet from its IP header on; may be cut off anywhere @returns `undefined` when it does not have a whole IP header */
export function parsePacket(data: Uint8Array): PacketHeader | undefined {
  const version = (data[0] ?? 0) >> 4;
  if (version === 4) return parseIpv4(data);
  return version === 6 ? parseIpv6(data) : undefined;
}

function parseIpv4(data: Uint8Array): PacketHeader | undefined {
  const headerLength = ((data[0] ?? 0) & 0xf) * 4;
  if (data.length < IPV4_HEADER || headerLength < IPV4_HEADER) return undefined;
  const isFirstPart = (u16(data, 6) & IPV4_OFFSET_MASK) === 0;
  return withPorts(data, ends(data, 4, 12), data[9] ?? 0, isFirstPart ? headerLength : undefined);
}

function parseIpv6(data: Uint8Array): PacketHeader | undefined {
  if (data.length < IPV6_HEADER) return undefined;
  const { protocol, at } = upperLayer(data, data[6] ?? 0);
  return withPorts(data, ends(data, 6, 8), protocol, at);
}

/** Skips the extension headers. @returns where the protocol's header begins; `undefined` where it is not there */
function upperLayer(data: Uint8Array, first: number): { readonly protocol: number; readonly at: number | undefined } {
  let protocol = first;
  let at = IPV6_HEADER;
  for (let skipped = 0; skipped < MOST_EXTENSIONS && EXTENSIONS.includes(protocol); skipped++) {
    if (at + 8 > data.length) return { protocol, at: undefined };
    const next = data[at] ?? 0;
    if (protocol === FRAGMENT && (u16(data, at + 2) & IPV6_OFFSET_MASK) !== 0) return { protocol: next, at: undefined };
    at += extensionLength(protocol, data[at + 1] ?? 0);
    protocol = next;
  }
  return { protocol, at: EXTENSIONS.includes(protocol) ? undefined : at };
}

/** RFC 8200 4.3-4.6 counts units of 8 bytes behind the first; RFC 4302 2.2 counts units of 4 bytes, less 2. */
function extensionLength(protocol: number, length: number): number {
  if (protocol === FRAGMENT) return 8;
  return protocol === AUTHENTICATION ? (length + 2) * 4 : (length + 1) * 8;
}

/** @param at where the protocol's header begins */
function withPorts(data: Uint8Array, addresses: Ends, protocol: number, at: number | undefined): PacketHeader {
  const hasPorts = at !== undefined && WITH_PORTS.includes(protocol) && at + PORTS_BYTES <= data.length;
  const [sourcePort, destinationPort] = hasPorts ? [u16(data, at), u16(data, at + 2)] : [undefined, undefined];
  const tcpFlags = hasPorts && protocol === TCP ? data[at + TCP_FLAGS_AT] : undefined;
  return { ...addresses, protocol, sourcePort, destinationPort, tcpFlags };
}

type Ends = Pick<PacketHeader, "source" | "destination">;

function ends(data: Uint8Array, family: Family, at: number): Ends {
  const bytes = family === 4 ? 4 : 16;
  const address = (from: number) => addressOf(family, data.subarray(from, from + bytes));
  return { source: address(at), destination: address(at + bytes) };
}

/** Reads 16 bits in network order. The caller has looked at the length. */
function u16(data: Uint8Array, at: number): number {
  return ((data[at] ?? 0) << 8) | (data[at + 1] ?? 0);
}
