/**
 * Routes that belong to the node and not to an attachment. They bear a protocol number and a metric of their own: the number tells them
 * from other programs' routes, and the metric lets a route to one of the node's own pods win.
 */
import type { Address, Family, Prefix } from "../../lib/addresses/address.ts";
import { NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, u32 } from "../netlink/message.ts";
import type { Netlink, Request } from "../netlink/socket.ts";
import { dumpMainTable, parseRouteOf, RTM_NEWROUTE, RTN_UNICAST, routePayload, wayAttributes } from "./route.ts";

const RTM_DELROUTE = 25;
const RTA_PRIORITY = 6;
const RTN_BLACKHOLE = 6;
const RTNH_F_ONLINK = 4;

/** "T"; no routing daemon has it (iproute2, etc/iproute2/rt_protos). */
export const NODE_ROUTE_PROTOCOL = 84;
/** Larger than that of any route that a plugin makes: none with IPv4, 1024 with IPv6. */
const METRIC = 2048;

/** A route of ours as the kernel has it, or shall have it. */
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

/** Deletes this route if it is ours. @throws NetlinkError; ESRCH when there is none */
export function deleteNodeRoute(socket: Netlink, route: NodeKernelRoute): void {
  socket.request(routeRequest(RTM_DELROUTE, route));
}

/** Our routes of the main table of one family. @throws NetlinkError */
export function listNodeRoutes(socket: Netlink, family: Family): NodeKernelRoute[] {
  return routesOf(socket, family, NODE_ROUTE_PROTOCOL).map(({ destination, gateway, type, index, flags }) => ({
    destination,
    gateway,
    // An IPv6 route to nowhere names lo.
    index: type === RTN_UNICAST ? index : undefined,
    isOnLink: (flags & RTNH_F_ONLINK) !== 0,
  }));
}

/** How many routes of the main table have this protocol. @throws NetlinkError */
export function countRoutesOf(socket: Netlink, protocol: number): number {
  return routesOf(socket, 4, protocol).length + routesOf(socket, 6, protocol).length;
}

function routesOf(socket: Netlink, family: Family, protocol: number) {
  const all = dumpMainTable(socket, { family, protocol }).flatMap((message) => parseRouteOf(family, message) ?? []);
  return all.filter((found) => found.protocol === protocol);
}

/** The scope is that of any destination: what leads through a link without a gateway is IPv6 (`NodeRoute`), which has no scopes. */
function routeRequest(kind: number, { destination, gateway, index, isOnLink }: NodeKernelRoute): Request {
  const { address, length } = destination;
  const type = gateway === undefined && index === undefined ? RTN_BLACKHOLE : RTN_UNICAST;
  const head = { family: address.family, length, protocol: NODE_ROUTE_PROTOCOL, type, flags: isOnLink ? RTNH_F_ONLINK : 0 };
  return { type: kind, payload: routePayload(head, [...wayAttributes(destination, gateway, index), u32(RTA_PRIORITY, METRIC)]) };
}
