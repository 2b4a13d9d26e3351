/** Builds the steps of our rules as `nft` would (include/uapi/linux/netfilter/nf_tables.h). Numbers of headers are in network order. */
import { bytesOf, type Family, maskPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import { bytes, nest, text, u32be } from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";
import { type Edge, type Expression, newElements, newIntervalSet, type TableFamily } from "./message.ts";

const REGISTER = 1;
const NFT_REG_VERDICT = 0;
const NFT_META_IIFNAME = 6;
const NFT_META_NFPROTO = 15;
const NFT_CMP_EQ = 0;
const NFT_PAYLOAD_NETWORK_HEADER = 1;
const NFT_LOOKUP_F_INV = 1;
const NFT_META_L4PROTO = 16;
const NFT_PAYLOAD_TRANSPORT_HEADER = 2;
/** In the headers of UDP, TCP and SCTP. */
const DESTINATION_PORT_AT = 2;
const IPPROTO_IPIP = 4;
const IPPROTO_UDP = 17;
const NFT_FIB_RESULT_OIF = 1;
const NFT_FIB_RESULT_OIFNAME = 2;
const NFT_FIB_RESULT_ADDRTYPE = 3;
/** include/uapi/linux/rtnetlink.h */
const RTN_LOCAL = 2;
const NFT_JUMP = -3;
const NFTA_FIB_F_SADDR = 0x01;
const NFTA_FIB_F_IIF = 0x08;
const NFT_CT_STATE = 0;
const NFT_CT_STATUS = 2;
/** include/uapi/linux/netfilter/nf_conntrack_common.h, in the machine's order as conntrack has them. */
const ESTABLISHED_OR_RELATED = 0x06;
const IPS_DST_NAT = 0x20;
const NF_DROP = 0;
/** include/uapi/linux/if.h */
const IFNAMSIZ = 16;

/** Says where the addresses are in each family's header, and the numbers of the family here and there. */
export const FAMILIES = {
  4: { nfproto: 2, keyType: 7, length: 4, source: 12, destination: 16 },
  6: { nfproto: 10, keyType: 8, length: 16, source: 8, destination: 24 },
} as const;

/** Matches: meta nfproto ipv4 */
export function isOfFamily(family: Family): Expression[] {
  return [meta(NFT_META_NFPROTO), equals(Uint8Array.of(FAMILIES[family].nfproto))];
}

/** Matches: ip saddr @set, or ip daddr != @set. A set of the same transaction is found by its name too. */
export function isIn(family: Family, offset: number, set: string, isWanted: boolean): Expression[] {
  const inverted = isWanted ? [] : [u32be(5, NFT_LOOKUP_F_INV)];
  return [header(offset, FAMILIES[family].length), { name: "lookup", parameters: [text(1, set), u32be(2, REGISTER), ...inverted] }];
}

/** Matches: iifname "cali*" */
export function comesFrom(interfacePrefix: string): Expression[] {
  return [meta(NFT_META_IIFNAME), equals(new TextEncoder().encode(interfacePrefix))];
}

/**
 * Matches: fib saddr . iif oif 0: what would answer this packet does not go out where it came in. Link-local sources are looked up on their own
 * interface, and what has no source yet (duplicate address detection) passes (net/ipv6/netfilter/nft_fib_ipv6.c).
 */
export function hasForeignSource(): Expression[] {
  return [fib(NFT_FIB_RESULT_OIF, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF), equals(word(0))];
}

/** Matches: iifname "vxlan.calico" */
export function comesThrough(device: string): Expression[] {
  return [meta(NFT_META_IIFNAME), equals(new TextEncoder().encode(device.padEnd(IFNAMSIZ, "\0")))];
}

/** Matches: fib saddr type local: the sender claims an address of this node. */
export function hasLocalSource(): Expression[] {
  return [fib(NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_SADDR), equals(word(RTN_LOCAL))];
}

/** Matches: fib saddr oifname "cali*": the sender claims the address of a container of this node. */
export function hasSourceBehind(interfacePrefix: string): Expression[] {
  return [fib(NFT_FIB_RESULT_OIFNAME, NFTA_FIB_F_SADDR), equals(new TextEncoder().encode(interfacePrefix))];
}

/** Matches: udp dport 4789 */
export function goesToUdpPort(port: number): Expression[] {
  const destination = payload(REGISTER, NFT_PAYLOAD_TRANSPORT_HEADER, DESTINATION_PORT_AT, 2);
  return [...isProtocol(IPPROTO_UDP), destination, equals(Uint8Array.of(port >> 8, port & 0xff))];
}

/** Matches: meta l4proto ipencap */
export function isIpInIp(): Expression[] {
  return isProtocol(IPPROTO_IPIP);
}

export function isProtocol(protocol: number): Expression[] {
  return [meta(NFT_META_L4PROTO), equals(Uint8Array.of(protocol))];
}

/** Matches: ip daddr 127.0.0.0/8 */
export function goesToLoopback(): Expression[] {
  return [header(FAMILIES[4].destination, 1), equals(Uint8Array.of(127))];
}

/** Matches: ct state != { established, related } ct status ! dnat */
export function isUninvited(): Expression[] {
  return [
    conntrack(NFT_CT_STATE),
    masked(ESTABLISHED_OR_RELATED),
    equals(word(0)),
    conntrack(NFT_CT_STATUS),
    masked(IPS_DST_NAT),
    equals(word(0)),
  ];
}

export function masquerade(): Expression {
  return { name: "masq", parameters: [] };
}

export function drop(): Expression {
  return verdict(NF_DROP);
}

export function jump(chain: string): Expression {
  return verdict(NFT_JUMP, chain);
}

export function verdict(code: number, chain?: string): Expression {
  const content = [u32be(1, code >>> 0), ...(chain === undefined ? [] : [text(2, chain)])];
  return { name: "immediate", parameters: [u32be(1, NFT_REG_VERDICT), nest(2, [nest(2, content)])] };
}

function fib(result: number, flags: number): Expression {
  return { name: "fib", parameters: [u32be(1, REGISTER), u32be(2, result), u32be(3, flags)] };
}

export function meta(key: number): Expression {
  return { name: "meta", parameters: [u32be(2, key), u32be(1, REGISTER)] };
}

export function header(offset: number, length: number): Expression {
  return payload(REGISTER, NFT_PAYLOAD_NETWORK_HEADER, offset, length);
}

export function payload(register: number, base: number, offset: number, length: number): Expression {
  return { name: "payload", parameters: [u32be(1, register), u32be(2, base), u32be(3, offset), u32be(4, length)] };
}

export function conntrack(key: number): Expression {
  return { name: "ct", parameters: [u32be(2, key), u32be(1, REGISTER)] };
}

export function equals(value: Uint8Array): Expression {
  return compares(NFT_CMP_EQ, value);
}

export function compares(operation: number, value: Uint8Array): Expression {
  return { name: "cmp", parameters: [u32be(1, REGISTER), u32be(2, operation), nest(3, [bytes(1, value)])] };
}

export function masked(bits: number): Expression {
  return maskedIn(REGISTER, word(bits));
}

export function maskedIn(register: number, mask: Uint8Array): Expression {
  const values = [nest(4, [bytes(1, mask)]), nest(5, [bytes(1, new Uint8Array(mask.length))])];
  return { name: "bitwise", parameters: [u32be(1, register), u32be(2, register), u32be(3, mask.length), ...values] };
}

/** Writes four bytes in the machine's order. */
export function word(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

/** Elements of one message: an attribute ends at 64 KiB, and an IPv6 element takes 44 bytes. */
const ELEMENTS_PER_MESSAGE = 1000;

/** Creates a set with the prefixes of its family, as intervals. */
export function setRequests(table: TableFamily, tableName: string, family: Family, name: string, prefixes: readonly Prefix[]): Request[] {
  const edges = edgesOf(family, prefixes);
  const parts = Array.from({ length: Math.ceil(edges.length / ELEMENTS_PER_MESSAGE) }, (_, part) =>
    edges.slice(part * ELEMENTS_PER_MESSAGE, (part + 1) * ELEMENTS_PER_MESSAGE),
  );
  const { keyType, length } = FAMILIES[family];
  return [newIntervalSet(table, tableName, name, keyType, length), ...parts.map((part) => newElements(table, tableName, name, part))];
}

/** Returns the edges of the intervals that the prefixes of one family cover, in order. An interval up to the last address of all has no end. */
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
