/** Handles network interfaces by rtnetlink: creates a pair, looks at one, changes it, deletes it (rtnetlink(7), include/uapi/linux/if_link.h). */
import {
  type Attribute,
  attributeMap,
  bytes,
  type Message,
  NLM_F_CREATE,
  NLM_F_EXCL,
  nest,
  parseStructure,
  readText,
  readU32,
  structure,
  text,
  u8,
  u32,
  unlessRefused,
  viewOf,
} from "../netlink/message.ts";
import type { Netlink, Request } from "../netlink/socket.ts";

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
const RTM_SETLINK = 19;

export const IFLA_ADDRESS = 1;
export const IFLA_IFNAME = 3;
export const IFLA_MTU = 4;
const IFLA_LINK = 5;
const IFLA_MASTER = 10;
const IFLA_TXQLEN = 13;
export const IFLA_LINKINFO = 18;
const IFLA_IFALIAS = 20;
const IFLA_AF_SPEC = 26;
const IFLA_NET_NS_FD = 28;
export const IFLA_GROUP = 27;
const IFLA_EXT_MASK = 29;
const IFLA_NUM_TX_QUEUES = 31;
const IFLA_LINK_NETNSID = 37;
const IFLA_GSO_MAX_SIZE = 41;
const IFLA_GRO_MAX_SIZE = 58;
const IFLA_GSO_IPV4_MAX_SIZE = 63;
const IFLA_GRO_IPV4_MAX_SIZE = 64;
const IFLA_NUM_RX_QUEUES = 32;
export const IFLA_INFO_KIND = 1;
export const IFLA_INFO_DATA = 2;
const VETH_INFO_PEER = 1;
const IFLA_NETKIT_PEER_INFO = 1;
const IFLA_NETKIT_POLICY = 3;
const IFLA_NETKIT_MODE = 4;
const IFLA_NETKIT_PEER_POLICY = 5;
const NETKIT_L2 = 0;
/** Means "forward" in the words of iproute2. */
const NETKIT_PASS = 0;
const IFLA_INET6_ADDR_GEN_MODE = 8;
const IN6_ADDR_GEN_MODE_EUI64 = 0;
const IN6_ADDR_GEN_MODE_NONE = 1;
/** Statistics are the largest part of the kernel's answer about a link, and Tortie does not use them. */
const RTEXT_FILTER_SKIP_STATS = 8;
const AF_INET6 = 10;
const IFF_UP = 1;
export const IFINFOMSG_BYTES = 16;
const ENODEV = 19;

/**
 * Marks the group of a host end from its creation until its alias is written: the creating message may set a group but not an
 * alias. The value is "TORT" in ASCII, which no other program uses.
 */
export const UNFINISHED_GROUP = 0x544f5254;
/** Groups of joined deletions: "TO" in ASCII, then sixteen bits that tell the batches apart. */
const DELETION_GROUPS = 0x544f0000;
const DELETION_GROUP_COUNT = 0x10000;
const DEFAULT_GROUP = 0;

export type LinkKind = "veth" | "netkit";

export interface Link {
  readonly index: number;
  readonly name: string;
  /** Lower case with colons; "" for a link without one. */
  readonly mac: string;
  readonly mtu: number;
  readonly alias: string;
  readonly group: number;
  readonly isUp: boolean;
  /** "veth", "bridge"; "" for hardware and lo. */
  readonly kind: string;
  /** Index of the bridge, bond or the like of which it is a port. */
  readonly master?: number | undefined;
  /** The other end of a pair, where that is in another namespace: its index there, and the number that the socket's has for that one. */
  readonly peer?: { readonly index: number; readonly namespaceId: number };
}

/** Describes the two ends of a new pair, and what both have in common. */
export interface Pair {
  readonly kind: LinkKind;
  /** 0: the kernel's default. */
  readonly mtu: number;
  /** TX and RX queues of each end. */
  readonly queues: number;
  readonly host: { readonly name: string; readonly mac: string };
  readonly pod: { readonly name: string; readonly mac?: string | undefined; readonly namespaceFd: number };
}

export type LinkKey = { readonly name: string } | { readonly index: number };

/**
 * Makes the request for a pair, sent on the host's socket. One message makes both ends and places the pod end in its namespace,
 * so no process ever sees half a pair (C§4.2, C§12.3). The flags stay 0: an end without a peer cannot go up (ENOTCONN).
 * The host end has no transmit queue length, as recorded (`version-1.0.0`).
 */
export function pairRequest(pair: Pair): Request {
  const common = [
    ...(pair.mtu > 0 ? [u32(IFLA_MTU, pair.mtu)] : []),
    u32(IFLA_NUM_TX_QUEUES, pair.queues),
    u32(IFLA_NUM_RX_QUEUES, pair.queues),
  ];
  const podMac = pair.pod.mac === undefined ? [] : [bytes(IFLA_ADDRESS, macBytes(pair.pod.mac))];
  const peer = linkPayload(0, 0, [text(IFLA_IFNAME, pair.pod.name), ...podMac, ...common, u32(IFLA_NET_NS_FD, pair.pod.namespaceFd)]);
  const data =
    pair.kind === "veth"
      ? [bytes(VETH_INFO_PEER, peer)]
      : // The host end is the primary one, and Felix attaches its programs to that (C§4.5).
        [
          u32(IFLA_NETKIT_MODE, NETKIT_L2),
          u32(IFLA_NETKIT_POLICY, NETKIT_PASS),
          u32(IFLA_NETKIT_PEER_POLICY, NETKIT_PASS),
          bytes(IFLA_NETKIT_PEER_INFO, peer),
        ];
  return {
    type: RTM_NEWLINK,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    payload: linkPayload(0, 0, [
      text(IFLA_IFNAME, pair.host.name),
      bytes(IFLA_ADDRESS, macBytes(pair.host.mac)),
      ...common,
      u32(IFLA_TXQLEN, 0),
      u32(IFLA_GROUP, UNFINISHED_GROUP),
      nest(IFLA_LINKINFO, [text(IFLA_INFO_KIND, pair.kind), nest(IFLA_INFO_DATA, data)]),
    ]),
  };
}

/** @returns `undefined` without such a link. @throws NetlinkError */
export function getLink(socket: Netlink, key: LinkKey): Link | undefined {
  const message = askForLink(socket, key);
  return message && parseLink(message);
}

/** Asks the kernel about one link. @throws NetlinkError */
export function askForLink(socket: Netlink, key: LinkKey): Message | undefined {
  const payload = keyPayload(key, [u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)]);
  return unlessRefused(ENODEV, () => socket.request({ type: RTM_GETLINK, payload })[0]);
}

/** Lists every link of the socket's namespace. @throws NetlinkError */
export function listLinks(socket: Netlink): Link[] {
  const payload = linkPayload(0, 0, [u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)]);
  return socket.dump({ type: RTM_GETLINK, payload }).map(parseLink);
}

function change(socket: Netlink, index: number, attributes: readonly Attribute[]): void {
  socket.request({ type: RTM_SETLINK, payload: linkPayload(index, 0, attributes) });
}

export function setLinkUp(socket: Netlink, index: number): void {
  socket.request({ type: RTM_SETLINK, payload: linkPayload(index, IFF_UP, []) });
}

export function setLinkMtu(socket: Netlink, index: number, mtu: number): void {
  change(socket, index, [u32(IFLA_MTU, mtu)]);
}

export function setLinkMac(socket: Netlink, index: number, mac: string): void {
  change(socket, index, [bytes(IFLA_ADDRESS, macBytes(mac))]);
}

/** Sets the largest packets of offload, in bytes; 0 leaves the kernel's. @throws NetlinkError where the kernel or the device does not take them */
export function setLinkOffload(socket: Netlink, index: number, { gro, gso }: { readonly gro: number; readonly gso: number }): void {
  const attributes = [
    ...(gro > 0 ? [u32(IFLA_GRO_MAX_SIZE, gro), u32(IFLA_GRO_IPV4_MAX_SIZE, gro)] : []),
    ...(gso > 0 ? [u32(IFLA_GSO_MAX_SIZE, gso), u32(IFLA_GSO_IPV4_MAX_SIZE, gso)] : []),
  ];
  if (attributes.length > 0) change(socket, index, attributes);
}

/** Says on a link whose it is, and takes away the mark of an unfinished one. */
export function setLinkAlias(socket: Netlink, index: number, alias: string): void {
  const attributes = [text(IFLA_IFALIAS, alias), u32(IFLA_GROUP, DEFAULT_GROUP)];
  change(socket, index, attributes);
}

/** Sets whether the kernel derives the link's IPv6 link-local address from its MAC when the link goes up. @throws NetlinkError */
export function setLinkLocalSource(socket: Netlink, index: number, source: "mac" | "none"): void {
  const mode = u8(IFLA_INET6_ADDR_GEN_MODE, source === "mac" ? IN6_ADDR_GEN_MODE_EUI64 : IN6_ADDR_GEN_MODE_NONE);
  change(socket, index, [nest(IFLA_AF_SPEC, [nest(AF_INET6, [mode])])]);
}

/** Makes the request that deletes a link of any type, with its peer, its addresses and its routes. */
export function deleteRequest(index: number): Request {
  return { type: RTM_DELLINK, payload: linkPayload(index, 0, []) };
}

/** Tells whether a joined deletion gave a link this group. */
export function isDeletionGroup(group: number): boolean {
  return group !== UNFINISHED_GROUP && group >= DELETION_GROUPS && group < DELETION_GROUPS + DELETION_GROUP_COUNT;
}

/** Chooses a group for a joined deletion that no other program uses, nor, most likely, another batch under way. */
export function freshDeletionGroup(): number {
  const group = DELETION_GROUPS + Math.floor(Math.random() * DELETION_GROUP_COUNT);
  return isDeletionGroup(group) ? group : freshDeletionGroup();
}

/** Makes the request that deletes every link of a group, all of them in one step (net/core/rtnetlink.c, rtnl_group_dellink). */
export function deleteGroupRequest(group: number): Request {
  return { type: RTM_DELLINK, payload: linkPayload(0, 0, [u32(IFLA_GROUP, group)]) };
}

/** @throws NetlinkError */
export function setLinkGroup(socket: Netlink, index: number, group: number): void {
  change(socket, index, [u32(IFLA_GROUP, group)]);
}

/** Tells whether a message that a monitoring socket got says that this link is gone from its namespace. */
export function isDeletionOf(message: Message, index: number): boolean {
  const { type, payload } = message;
  return type === RTM_DELLINK && viewOf(payload, IFINFOMSG_BYTES).getInt32(4, true) === index;
}

/** Writes a MAC in lower case with colons, from six or more octets. */
export function formatMac(octets: Uint8Array): string {
  const digits: string[] = [];
  for (let at = 0; at < octets.length; at++) digits.push((octets[at] ?? 0).toString(16).padStart(2, "0"));
  return digits.join(":");
}

/** Octets of a MAC written with colons. */
export function macBytes(mac: string): Uint8Array {
  return new Uint8Array(mac.split(":").map((octet) => Number.parseInt(octet, 16)));
}

/** Asks about one link. */
function keyPayload(key: LinkKey, attributes: readonly Attribute[]): Uint8Array {
  if ("index" in key) return linkPayload(key.index, 0, attributes);
  return linkPayload(0, 0, [text(IFLA_IFNAME, key.name), ...attributes]);
}

/** Writes struct ifinfomsg and attributes; `flags` are both the value and the mask of what changes. */
export function linkPayload(index: number, flags: number, attributes: readonly Attribute[]): Uint8Array {
  const fill = (view: DataView) => {
    view.setInt32(4, index, true);
    view.setUint32(8, flags, true);
    view.setUint32(12, flags, true);
  };
  return structure(IFINFOMSG_BYTES, fill, attributes);
}

export function parseLink(message: Message): Link {
  const { view, attributes } = parseStructure(message, IFINFOMSG_BYTES);
  const info = attributes.get(IFLA_LINKINFO);
  const [peer, namespaceId] = [readU32(attributes.get(IFLA_LINK)), readU32(attributes.get(IFLA_LINK_NETNSID))];
  return {
    index: view.getInt32(4, true),
    isUp: (view.getUint32(8, true) & IFF_UP) !== 0,
    name: readText(attributes.get(IFLA_IFNAME)) ?? "",
    mac: formatMac(attributes.get(IFLA_ADDRESS) ?? new Uint8Array()),
    mtu: readU32(attributes.get(IFLA_MTU)) ?? 0,
    alias: readText(attributes.get(IFLA_IFALIAS)) ?? "",
    group: readU32(attributes.get(IFLA_GROUP)) ?? 0,
    kind: info === undefined ? "" : (readText(attributeMap(info).get(IFLA_INFO_KIND)) ?? ""),
    master: readU32(attributes.get(IFLA_MASTER)),
    peer: peer === undefined || namespaceId === undefined ? undefined : { index: peer, namespaceId },
  };
}

const RTM_GETNSID = 90;
const NETNSA_NSID = 1;
const NETNSA_FD = 3;
/** Is the length of struct rtgenmsg, padded. */
const RTGENMSG_BYTES = 4;
/** Is NETNSA_NSID_NOT_ASSIGNED, -1. */
const NONE = 0xffff_ffff;

/**
 * Returns the number by which a network namespace knows another (rtnetlink(7), include/uapi/linux/net_namespace.h).
 * @param fd of a namespace @returns its number in the socket's namespace; `undefined` where it has none @throws NetlinkError
 */
export function namespaceIdOf(socket: Netlink, fd: number): number | undefined {
  const payload = structure(RTGENMSG_BYTES, () => undefined, [u32(NETNSA_FD, fd)]);
  const [answer] = socket.request({ type: RTM_GETNSID, payload });
  const id = answer && readU32(parseStructure(answer, RTGENMSG_BYTES).attributes.get(NETNSA_NSID));
  return id === NONE ? undefined : id;
}
