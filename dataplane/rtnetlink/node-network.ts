/**
 * Makes, lists and deletes by rtnetlink what joins a node with others: VXLAN devices (include/uapi/linux/if_link.h, drivers/net/vxlan) and
 * routes.
 *
 * The routes belong to the node and not to an attachment. They bear a protocol number and a metric of their own: the number tells them from
 * other programs' routes, and the metric lets a route to one of the node's own pods win.
 */
import { type Address, bytesOf, type Family, type Prefix } from "../../lib/addresses/address.ts";
import {
  addressOf,
  attributeMap,
  bytes,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  nest,
  parseStructure,
  readU32,
  text,
  u8,
  u32,
} from "../netlink/message.ts";
import type { Netlink, Request } from "../netlink/socket.ts";
import {
  askForLink,
  IFINFOMSG_BYTES,
  IFLA_ADDRESS,
  IFLA_GROUP,
  IFLA_IFNAME,
  IFLA_INFO_DATA,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  IFLA_MTU,
  type Link,
  linkPayload,
  macBytes,
  parseLink,
  RTM_NEWLINK,
  UNFINISHED_GROUP,
} from "./link.ts";
import { listMainTable, RTA_PRIORITY, RTM_NEWROUTE, RTN_UNICAST, routePayload, wayAttributes } from "./route.ts";

const IFLA_VXLAN_ID = 1;
const IFLA_VXLAN_LINK = 3;
const IFLA_VXLAN_LOCAL = 4;
const IFLA_VXLAN_LEARNING = 7;
const IFLA_VXLAN_PORT = 15;
const IFLA_VXLAN_LOCAL6 = 17;

/** Has what can only be chosen when the device is made. */
export interface VxlanSettings {
  readonly vni: number;
  readonly port: number;
  /** Index of the link that encapsulated packets leave by. */
  readonly parent: number;
  readonly local: Address;
}

export interface VxlanLink extends Link {
  /** Is `undefined` for any other device than VXLAN. */
  readonly settings: (Omit<VxlanSettings, "local"> & { readonly local: Address | undefined; readonly learns: boolean }) | undefined;
}

/** Makes the device down, with the mark of an unfinished link until its alias is written. */
export function vxlanRequest(name: string, mac: string, mtu: number, { vni, port, parent, local }: VxlanSettings): Request {
  const data = [
    u32(IFLA_VXLAN_ID, vni),
    u32(IFLA_VXLAN_LINK, parent),
    bytes(local.family === 4 ? IFLA_VXLAN_LOCAL : IFLA_VXLAN_LOCAL6, bytesOf(local)),
    u8(IFLA_VXLAN_LEARNING, 0),
    // Network byte order.
    bytes(IFLA_VXLAN_PORT, Uint8Array.of(port >> 8, port & 0xff)),
  ];
  const attributes = [
    text(IFLA_IFNAME, name),
    bytes(IFLA_ADDRESS, macBytes(mac)),
    u32(IFLA_MTU, mtu),
    u32(IFLA_GROUP, UNFINISHED_GROUP),
    nest(IFLA_LINKINFO, [text(IFLA_INFO_KIND, "vxlan"), nest(IFLA_INFO_DATA, data)]),
  ];
  return { type: RTM_NEWLINK, flags: NLM_F_CREATE | NLM_F_EXCL, payload: linkPayload(0, 0, attributes) };
}

/** Reads a link of any kind with its VXLAN settings; `undefined` without a link of this name. @throws NetlinkError */
export function getVxlan(socket: Netlink, name: string): VxlanLink | undefined {
  const message = askForLink(socket, { name });
  if (message === undefined) return undefined;
  const link = parseLink(message);
  const info = parseStructure(message, IFINFOMSG_BYTES).attributes.get(IFLA_LINKINFO);
  const data = info === undefined || link.kind !== "vxlan" ? undefined : attributeMap(info).get(IFLA_INFO_DATA);
  return { ...link, settings: data === undefined ? undefined : settingsOf(attributeMap(data)) };
}

function settingsOf(data: ReadonlyMap<number, Uint8Array>): VxlanLink["settings"] {
  const port = data.get(IFLA_VXLAN_PORT);
  const [local4, local6] = [data.get(IFLA_VXLAN_LOCAL), data.get(IFLA_VXLAN_LOCAL6)];
  const local = local4 !== undefined ? addressOf(4, local4) : local6 !== undefined ? addressOf(6, local6) : undefined;
  return {
    vni: readU32(data.get(IFLA_VXLAN_ID)) ?? 0,
    parent: readU32(data.get(IFLA_VXLAN_LINK)) ?? 0,
    port: port === undefined ? 0 : ((port[0] ?? 0) << 8) | (port[1] ?? 0),
    local,
    learns: (data.get(IFLA_VXLAN_LEARNING)?.[0] ?? 0) !== 0,
  };
}

export const RTM_DELROUTE = 25;
const RTN_BLACKHOLE = 6;
const RTNH_F_ONLINK = 4;

/** Is "T"; no routing daemon has it (iproute2, etc/iproute2/rt_protos). */
export const NODE_ROUTE_PROTOCOL = 84;
/** Exceeds that of any route that a plugin makes: none with IPv4, 1024 with IPv6. */
export const NODE_ROUTE_METRIC = 2048;

/** Describes a route of ours as the kernel has it, or shall have it. */
export interface NodeKernelRoute {
  readonly destination: Prefix;
  readonly gateway?: Address;
  /** The link. Absent in a request with a gateway: the kernel finds the link that it is on. Without both, packets are dropped. */
  readonly index?: number;
  /** The gateway counts as a neighbour whatever the link's own addresses are. */
  readonly isOnLink: boolean;
}

/** @throws NetlinkError; EEXIST, ENETUNREACH where no link leads to the gateway */
export function addNodeRoute(socket: Netlink, route: NodeKernelRoute): void {
  socket.request({ ...routeRequest(RTM_NEWROUTE, route), flags: NLM_F_CREATE | NLM_F_EXCL });
}

/**
 * Puts a route in the place of ours to the same destination, in one step (net/ipv4/fib_trie.c, fib_table_insert; net/ipv6/ip6_fib.c,
 * fib6_add_rt2node). The kernel finds it by destination and metric, which is ours alone.
 *
 * @throws NetlinkError; ENETUNREACH where no link leads to the gateway
 */
export function replaceNodeRoute(socket: Netlink, route: NodeKernelRoute): void {
  socket.request({ ...routeRequest(RTM_NEWROUTE, route), flags: NLM_F_CREATE | NLM_F_REPLACE });
}

/** Deletes this route if it is ours. @throws NetlinkError; ESRCH without such a route */
export function deleteNodeRoute(socket: Netlink, route: NodeKernelRoute): void {
  socket.request(routeRequest(RTM_DELROUTE, route));
}

/** Lists our routes of the main table of one family. @throws NetlinkError */
export function listNodeRoutes(socket: Netlink, family: Family): NodeKernelRoute[] {
  return routesOf(socket, family, NODE_ROUTE_PROTOCOL).map(({ destination, gateway, type, index, flags }) => ({
    destination,
    gateway,
    // An IPv6 route to nowhere names lo.
    index: type === RTN_UNICAST ? index : undefined,
    isOnLink: (flags & RTNH_F_ONLINK) !== 0,
  }));
}

/** Counts how many routes of the main table have this protocol. @throws NetlinkError */
export function countRoutesOf(socket: Netlink, protocol: number): number {
  return routesOf(socket, 4, protocol).length + routesOf(socket, 6, protocol).length;
}

function routesOf(socket: Netlink, family: Family, protocol: number) {
  return listMainTable(socket, { family, protocol }).filter((found) => found.protocol === protocol);
}

/** Makes the request with the scope of any destination: what leads through a link without a gateway is IPv6 (`NodeRoute`), which has no scopes. */
function routeRequest(kind: number, { destination, gateway, index, isOnLink }: NodeKernelRoute): Request {
  const { address, length } = destination;
  const type = gateway === undefined && index === undefined ? RTN_BLACKHOLE : RTN_UNICAST;
  const head = { family: address.family, length, protocol: NODE_ROUTE_PROTOCOL, type, flags: isOnLink ? RTNH_F_ONLINK : 0 };
  return { type: kind, payload: routePayload(head, [...wayAttributes(destination, gateway, index), u32(RTA_PRIORITY, NODE_ROUTE_METRIC)]) };
}
