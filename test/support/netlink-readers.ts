/** Every reader of netlink messages with a message that it takes, for tests with messages that are almost the kernel's. */
import { parseFlow } from "../../dataplane/conntrack/message.ts";
import {
  type Attribute,
  bytes,
  encodeAttributes,
  type Message,
  nest,
  parseAcknowledgement,
  text,
  u8,
  u32,
  u32be,
  u64be,
} from "../../dataplane/netlink/message.ts";
import type { Netlink } from "../../dataplane/netlink/socket.ts";
import { elementsIn } from "../../dataplane/nftables/elements.ts";
import { parseChain, parseGeneration } from "../../dataplane/nftables/message.ts";
import { listChains } from "../../dataplane/nftables/others.ts";
import { readCounters } from "../../dataplane/nftables/policy/counters.ts";
import { POLICY_TABLE } from "../../dataplane/nftables/policy/layout.ts";
import { hasShape, IFNAME, INET_SERVICE, isAnonymous } from "../../dataplane/nftables/sets.ts";
import { listAddresses } from "../../dataplane/rtnetlink/address.ts";
import { getLink, isDeletionOf, listLinks, namespaceIdOf, parseLink } from "../../dataplane/rtnetlink/link.ts";
import { findNeighbour, listPeers } from "../../dataplane/rtnetlink/neighbour.ts";
import { getVxlan } from "../../dataplane/rtnetlink/node-network.ts";
import { listRoutes, parseRouteOf } from "../../dataplane/rtnetlink/route.ts";

export interface Reader {
  readonly name: string;
  readonly type: number;
  readonly flags?: number;
  /** The structure before the attributes. */
  readonly head: Uint8Array;
  readonly attributes: readonly Attribute[];
  readonly read: (message: Message) => unknown;
}

/** A kernel whose every answer is this message. */
function answering(message: Message): Netlink {
  return { request: () => [message], dump: () => [message], batch: () => undefined };
}

const IPV4 = { family: 4, value: 0x0a000001n } as const;
const [octets4, octets6] = [Uint8Array.of(10, 0, 0, 1), Uint8Array.from([0xfd, ...new Uint8Array(14), 1])];
/** A pad puts alignment to the test. */
const MAC = bytes(1, Uint8Array.of(1, 2, 3, 4, 5, 6));
const LINK = [
  text(3, "eth0"),
  u32(4, 1500),
  u32(5, 7),
  u32(10, 3),
  text(20, "alias"),
  u32(27, 0),
  u32(37, 2),
  MAC,
  nest(18, [text(1, "vxlan"), nest(2, [u32(1, 4096), bytes(4, octets4), bytes(15, Uint8Array.of(0x12, 0xb5)), u8(7, 1)])]),
];
const TUPLE = [
  nest(1, [bytes(1, octets4), bytes(2, octets4)]),
  nest(2, [u8(1, 6), bytes(2, octets4.subarray(0, 2)), bytes(3, octets4.subarray(0, 2))]),
];
const SHAPE = { isMap: true, fields: [IFNAME, INET_SERVICE] };
const [inet, addressFamily] = [1, 2];
const linkHead = Uint8Array.from([...new Uint8Array(4), 5, 0, 0, 0, ...new Uint8Array(8)]);
const neighbourHead = Uint8Array.from([addressFamily, 0, 0, 0, 5, 0, 0, 0, 0x80, 0, 0, 0]);
const CHAIN = [text(1, POLICY_TABLE), text(3, "forward"), nest(4, [u32be(1, 2), u32be(2, 0)]), u32be(5, 1), text(7, "filter")];
const ELEMENT = [
  nest(1, [bytes(1, Uint8Array.from([..."cali1"].map((letter) => letter.charCodeAt(0))))]),
  nest(2, [nest(2, [u32be(1, 0xffff_fffc), text(2, "chain")])]),
];

export const READERS: readonly Reader[] = [
  { name: "parseLink", type: 16, head: linkHead, attributes: LINK, read: parseLink },
  { name: "getLink", type: 16, head: linkHead, attributes: LINK, read: (message) => getLink(answering(message), { index: 5 }) },
  { name: "listLinks", type: 16, head: linkHead, attributes: LINK, read: (message) => listLinks(answering(message)) },
  { name: "getVxlan", type: 16, head: linkHead, attributes: LINK, read: (message) => getVxlan(answering(message), "eth0") },
  { name: "isDeletionOf", type: 17, head: linkHead, attributes: [], read: (message) => isDeletionOf(message, 5) },
  {
    name: "namespaceIdOf",
    type: 88,
    head: new Uint8Array(4),
    attributes: [u32(1, 7)],
    read: (message) => namespaceIdOf(answering(message), 3),
  },
  {
    name: "parseRouteOf",
    type: 24,
    head: Uint8Array.from([addressFamily, 32, 0, 0, 254, 84, 0, 1, ...new Uint8Array(4)]),
    attributes: [bytes(1, octets4), bytes(5, octets4), u32(4, 5), u32(15, 254), bytes(7, octets4)],
    read: (message) => [parseRouteOf(4, message), listRoutes(answering(message), 4)],
  },
  {
    name: "listAddresses",
    type: 20,
    head: Uint8Array.from([addressFamily, 24, 0, 0, 5, 0, 0, 0]),
    attributes: [bytes(2, octets4), u32(8, 0x80)],
    read: (message) => listAddresses(answering(message), 5),
  },
  {
    name: "findNeighbour",
    type: 28,
    head: neighbourHead,
    attributes: [bytes(1, octets4), bytes(2, MAC.payload)],
    read: (message) => [findNeighbour(answering(message), 5, IPV4), listPeers(answering(message), 5, "neighbours", 4)],
  },
  {
    name: "parseFlow",
    type: 0x100,
    head: Uint8Array.of(addressFamily, 0, 0, 0),
    attributes: [nest(1, TUPLE), nest(2, TUPLE), u32be(12, 1), u32be(18, 1)],
    read: (message) => parseFlow(message, () => true),
  },
  {
    name: "parseFlow of IPv6",
    type: 0x100,
    head: Uint8Array.of(10, 0, 0, 0),
    attributes: [1, 2].map((type) => nest(type, [nest(1, [bytes(3, octets6), bytes(4, octets6)]), nest(2, [u8(1, 17)])])),
    read: (message) => parseFlow(message, () => true),
  },
  { name: "parseGeneration", type: 0xa0f, head: Uint8Array.of(inet, 0, 0, 0), attributes: [u32be(1, 7)], read: parseGeneration },
  {
    name: "parseChain",
    type: 0xa03,
    head: Uint8Array.of(inet, 0, 0, 0),
    attributes: CHAIN,
    read: (message) => [parseChain(message), listChains(answering(message))],
  },
  {
    name: "hasShape",
    type: 0xa09,
    head: Uint8Array.of(inet, 0, 0, 0),
    attributes: [u32be(3, 8), u32be(4, 41), u32be(5, 20), u32be(6, 0xffff_ff00)],
    read: (message) => [hasShape(message, SHAPE), isAnonymous(message)],
  },
  {
    name: "elementsIn",
    type: 0xa0c,
    head: Uint8Array.of(inet, 0, 0, 0),
    attributes: [text(1, POLICY_TABLE), nest(3, [nest(1, ELEMENT)])],
    read: (message) => elementsIn([message], SHAPE),
  },
  {
    name: "readCounters",
    type: 0xa12,
    head: Uint8Array.of(inet, 0, 0, 0),
    attributes: [text(1, POLICY_TABLE), text(2, "cnt"), u32be(3, 1), nest(4, [u64be(1, 5), u64be(2, 6)])],
    read: (message) => readCounters(answering(message)),
  },
  {
    name: "parseAcknowledgement",
    type: 2,
    flags: 0x300,
    head: new Uint8Array(20),
    attributes: [text(1, "no")],
    read: parseAcknowledgement,
  },
];

export function messageFor({ type, flags = 0, head, attributes }: Reader): Message {
  return { type, flags, sequence: 1, payload: Uint8Array.from([...head, ...encodeAttributes(attributes)]) };
}
