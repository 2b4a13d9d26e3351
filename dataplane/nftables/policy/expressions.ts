/** Builds the steps of the policy's rules as `nft` would; each function says which words of `nft` it stands for. */

import { bytes, nest, text, u32be, u64be } from "../../netlink/message.ts";
import type { Direction } from "../../packet-policy.ts";
import {
  compares,
  conntrack,
  equals,
  FAMILIES,
  header,
  isOfFamily,
  isProtocol,
  masked,
  maskedIn,
  meta,
  payload,
  verdict,
  word,
} from "../expressions.ts";
import type { Expression } from "../message.ts";
import { LOGGED_BYTES } from "./log-prefix.ts";

const REGISTER = 1;
const NFT_REG_VERDICT = 0;
/**
 * The registers behind a name of an interface, which fills the first sixteen bytes: NFT_REG_2, and the second four bytes of it
 * (NFT_REG32_05). The kernel lists the first of both by this number, whichever it was told.
 */
const BEHIND_NAME = 2;
const BEHIND_PROTOCOL = 13;
const NFT_META_IIFNAME = 6;
const NFT_META_OIFNAME = 7;
const NFT_META_L4PROTO = 16;
const NFT_PAYLOAD_NETWORK_HEADER = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER = 2;
const NFT_CMP_NEQ = 1;
const NFT_CMP_LTE = 3;
const NFT_CMP_GTE = 5;
const NFT_CT_STATE = 0;
const NFT_CT_DIRECTION = 1;
const IP_CT_DIR_REPLY = 1;
const NFT_GOTO = -4;
const NFT_RETURN = -5;
const NFT_DYNSET_OP_UPDATE = 1;
const NFT_OBJECT_COUNTER = 1;
/** Bits of `ct state` (include/uapi/linux/netfilter/nf_conntrack_common.h, NF_CT_STATE_BIT). */
const STATES = { invalid: 0x01, established: 0x02, related: 0x04, new: 0x08 } as const;
type State = keyof typeof STATES;
const IPPROTO_ICMP = 1;
const IPPROTO_TCP = 6;
const IPPROTO_ICMPV6 = 58;
/** Fields of the headers of IPv6, ICMPv6 and TCP. */
const HOP_LIMIT_AT = 7;
const ICMP_TYPE_AT = 0;
const TCP_FLAGS_AT = 13;
const DESTINATION_PORT_AT = 2;
/** RFC 4861: 133 router solicitation, 134 router advertisement, 135 and 136 neighbour solicitation and advertisement, 137 redirect. */
const ND_ROUTER_SOLICIT = 133;
const ND_NEIGHBOUR_ADVERT = 136;
const ND_REDIRECT = 137;
const FIN_SYN_RST_ACK = 0x17;
const SYN = 0x02;

/** Says where a packet has the endpoint's host end, and where its peer's address. */
const ENDS = {
  ingress: { name: NFT_META_OIFNAME, peer: "source" },
  egress: { name: NFT_META_IIFNAME, peer: "destination" },
} as const;

/** Matches: iifname "cali*", or oifname for what goes to an endpoint. */
export function isAtEndWith(direction: Direction, prefix: string): Expression[] {
  return [meta(ENDS[direction].name), equals(new TextEncoder().encode(prefix))];
}

/** Does: iifname vmap @map */
export function byEndpoint(direction: Direction, map: string): Expression[] {
  return [meta(ENDS[direction].name), verdictFrom(map)];
}

/**
 * Does: ip saddr & 255.255.0.0 vmap @map: the address of the peer, whoever has sent the packet.
 * @param bits leading bits of the address that are asked for; all of them need no mask
 */
export function byPeer(direction: Direction, family: 4 | 6, map: string, bits?: number): Expression[] {
  const { length } = FAMILIES[family];
  const mask = bits === undefined || bits === 8 * length ? [] : [maskedIn(REGISTER, prefixMask(bits, length))];
  return [...isOfFamily(family), header(FAMILIES[family][ENDS[direction].peer], length), ...mask, verdictFrom(map)];
}

/** Matches: iifname @set */
export function isEndpointIn(direction: Direction, set: string): Expression[] {
  return [meta(ENDS[direction].name), memberOf(set)];
}

/** Matches: iifname . meta l4proto . th dport & 0xfff0 @set. A mask of 0xffff is left out. */
export function isPortIn(direction: Direction, set: string, mask: number): Expression[] {
  const protocol: Expression = { name: "meta", parameters: [u32be(2, NFT_META_L4PROTO), u32be(1, BEHIND_NAME)] };
  const port = payload(BEHIND_PROTOCOL, NFT_PAYLOAD_TRANSPORT_HEADER, DESTINATION_PORT_AT, 2);
  const bits = mask === 0xffff ? [] : [maskedIn(BEHIND_PROTOCOL, Uint8Array.of(mask >> 8, mask & 0xff))];
  return [meta(ENDS[direction].name), protocol, port, ...bits, memberOf(set)];
}

/** Matches: iifname . ip daddr @set: what an endpoint sends to itself, by way of a Service. */
export function isToItself(direction: Direction, family: 4 | 6, set: string): Expression[] {
  const { length } = FAMILIES[family];
  const address = payload(BEHIND_NAME, NFT_PAYLOAD_NETWORK_HEADER, FAMILIES[family][ENDS[direction].peer], length);
  return [...isOfFamily(family), meta(ENDS[direction].name), address, memberOf(set)];
}

/** Matches: ct direction reply ct state established,related */
export function isReply(): Expression[] {
  return [conntrack(NFT_CT_DIRECTION), equals(Uint8Array.of(IP_CT_DIR_REPLY)), ...isInState("established", "related")];
}

/** Matches: ct state established,related */
export function isInState(...states: readonly State[]): Expression[] {
  const bits = states.reduce((sum, state) => sum | STATES[state], 0);
  return [conntrack(NFT_CT_STATE), masked(bits), compares(NFT_CMP_NEQ, word(0))];
}

/** Matches: ct state != established */
export function isNotEstablished(): Expression[] {
  return [conntrack(NFT_CT_STATE), compares(NFT_CMP_NEQ, word(STATES.established))];
}

/** Matches: ct state new tcp flags != syn / fin,syn,rst,ack */
export function beginsWithoutSyn(): Expression[] {
  const bits = maskedIn(REGISTER, Uint8Array.of(FIN_SYN_RST_ACK));
  return [
    ...isInState("new"),
    ...isProtocol(IPPROTO_TCP),
    payload(REGISTER, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_AT, 1),
    bits,
    compares(NFT_CMP_NEQ, Uint8Array.of(SYN)),
  ];
}

/** Matches: meta l4proto icmp ct state related: an error about a packet of a connection. */
export function isErrorOfConnection(family: 4 | 6): Expression[] {
  return [...isProtocol(family === 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6), ...isInState("related")];
}

/** Matches: icmpv6 type 133-136 ip6 hoplimit 255: no router has forwarded it (RFC 4861, 7.1). */
export function isNeighbourDiscovery(): Expression[] {
  const type = payload(REGISTER, NFT_PAYLOAD_TRANSPORT_HEADER, ICMP_TYPE_AT, 1);
  return [
    ...isOfFamily(6),
    ...isProtocol(IPPROTO_ICMPV6),
    type,
    compares(NFT_CMP_GTE, Uint8Array.of(ND_ROUTER_SOLICIT)),
    type,
    compares(NFT_CMP_LTE, Uint8Array.of(ND_NEIGHBOUR_ADVERT)),
    payload(REGISTER, NFT_PAYLOAD_NETWORK_HEADER, HOP_LIMIT_AT, 1),
    equals(Uint8Array.of(255)),
  ];
}

/** Matches: icmpv6 type nd-redirect */
export function isRedirect(): Expression[] {
  return [
    ...isOfFamily(6),
    ...isProtocol(IPPROTO_ICMPV6),
    payload(REGISTER, NFT_PAYLOAD_TRANSPORT_HEADER, ICMP_TYPE_AT, 1),
    equals(Uint8Array.of(ND_REDIRECT)),
  ];
}

/** Does: goto CHAIN: a `return` there leads to where this chain was jumped to from. */
export function goTo(chain: string): Expression {
  return verdict(NFT_GOTO, chain);
}

export function returns(): Expression {
  return verdict(NFT_RETURN);
}

/** Does: counter name NAME */
export function counts(counter: string): Expression {
  return { name: "objref", parameters: [u32be(1, NFT_OBJECT_COUNTER), text(2, counter)] };
}

/** Matches: update @set { iifname limit rate N/second burst M packets }: a limit for each endpoint. */
export function isWithinLimit(
  direction: Direction,
  set: string,
  rate: { readonly perSecond: number; readonly burst: number },
): Expression[] {
  const limit = [u64be(1, rate.perSecond), u64be(2, 1), u32be(3, rate.burst), u32be(4, 0), u32be(5, 0)];
  const parameters = [text(1, set), u32be(3, NFT_DYNSET_OP_UPDATE), u32be(4, REGISTER), nest(7, [text(1, "limit"), nest(2, limit)])];
  return [meta(ENDS[direction].name), { name: "dynset", parameters }];
}

/** Does: log prefix PREFIX group N snaplen 128 */
export function logs(prefix: string, group: number): Expression {
  const number = Uint8Array.of(group >> 8, group & 0xff);
  return { name: "log", parameters: [bytes(1, number), text(2, prefix), u32be(3, LOGGED_BYTES)] };
}

function verdictFrom(map: string): Expression {
  return { name: "lookup", parameters: [text(1, map), u32be(2, REGISTER), u32be(3, NFT_REG_VERDICT), u32be(5, 0)] };
}

function memberOf(set: string): Expression {
  return { name: "lookup", parameters: [text(1, set), u32be(2, REGISTER), u32be(5, 0)] };
}

function prefixMask(bits: number, length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, at) => 0xff00 >> Math.min(8, Math.max(0, bits - 8 * at)));
}
