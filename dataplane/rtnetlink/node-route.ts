/**
 * Routes that belong to the node and not to an attachment. They bear a protocol number and a metric of their own: the number tells them
 * from other programs' routes, and the metric lets a route to one of the node's own pods win.
 */
import { type Address, bytesOf, type Family, type Prefix } from "../../lib/addresses/address.ts";
import { attributeMap, bytes, encodeAttributes, readU32, u32 } from "../netlink/attribute.ts";
import { NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from "../netlink/message.ts";
import { type Netlink, NetlinkError, type Request } from "../netlink/socket.ts";
import { addressOf, familyOf, numberOf } from "./wire.ts";

const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_PRIORITY = 6;
const RTA_TABLE = 15;
const RT_TABLE_MAIN = 254;
const RTN_UNICAST = 1;
const RTN_BLACKHOLE = 6;
const RTNH_F_ONLINK = 4;
const RTMSG_BYTES = 12;
const ENOENT = 2;

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
  return dumpProtocol(socket, family, NODE_ROUTE_PROTOCOL).map(({ type, length, flags, attributes }) => {
    const destination = attributes.get(RTA_DST);
    const gateway = attributes.get(RTA_GATEWAY);
    // An IPv6 route to nowhere names lo.
    const index = type === RTN_UNICAST ? readU32(attributes.get(RTA_OIF)) : undefined;
    return {
      destination: { address: destination === undefined ? { family, value: 0n } : addressOf(family, destination), length },
      ...(gateway === undefined ? {} : { gateway: addressOf(family, gateway) }),
      ...(index === undefined ? {} : { index }),
      isOnLink: (flags & RTNH_F_ONLINK) !== 0,
    };
  });
}

/** How many routes of the main table have this protocol. @throws NetlinkError */
export function countRoutesOf(socket: Netlink, protocol: number): number {
  return dumpProtocol(socket, 4, protocol).length + dumpProtocol(socket, 6, protocol).length;
}

interface Dumped {
  readonly type: number;
  readonly length: number;
  readonly flags: number;
  readonly attributes: ReadonlyMap<number, Uint8Array>;
}

/** The kernel filters, and answers with all routes where it is too old for that (before 4.20). */
function dumpProtocol(socket: Netlink, family: Family, protocol: number): Dumped[] {
  const payload = routePayload({ family, length: 0, protocol, type: 0, flags: 0 }, encodeAttributes([u32(RTA_TABLE, RT_TABLE_MAIN)]));
  try {
    return socket.dump({ type: RTM_GETROUTE, payload }).flatMap(({ payload: found }) => {
      const view = new DataView(found.buffer, found.byteOffset, found.length);
      const attributes = attributeMap(found.subarray(RTMSG_BYTES));
      const table = readU32(attributes.get(RTA_TABLE)) ?? view.getUint8(4);
      if (familyOf(view.getUint8(0)) !== family || table !== RT_TABLE_MAIN || view.getUint8(5) !== protocol) return [];
      return [{ type: view.getUint8(7), length: view.getUint8(1), flags: view.getUint32(8, true), attributes }];
    });
  } catch (error) {
    // A namespace that never had an IPv4 route has no main table yet (net/ipv4/fib_frontend.c, inet_dump_fib).
    if (error instanceof NetlinkError && error.errno === ENOENT) return [];
    throw error;
  }
}

function routeRequest(kind: number, { destination, gateway, index, isOnLink }: NodeKernelRoute): Request {
  const { address, length } = destination;
  const attributes = encodeAttributes([
    ...(length > 0 ? [bytes(RTA_DST, bytesOf(address))] : []),
    ...(gateway === undefined ? [] : [bytes(RTA_GATEWAY, bytesOf(gateway))]),
    ...(index === undefined ? [] : [u32(RTA_OIF, index)]),
    u32(RTA_PRIORITY, METRIC),
  ]);
  const type = gateway === undefined && index === undefined ? RTN_BLACKHOLE : RTN_UNICAST;
  const flags = isOnLink ? RTNH_F_ONLINK : 0;
  const head = { family: address.family, length, protocol: NODE_ROUTE_PROTOCOL, type, flags };
  return { type: kind, payload: routePayload(head, attributes) };
}

interface Head {
  readonly family: Family;
  readonly length: number;
  readonly protocol: number;
  readonly type: number;
  readonly flags: number;
}

/**
 * struct rtmsg and attributes. The scope is that of any destination: what leads through a link without a gateway is IPv6 (`NodeRoute`),
 * which has no scopes.
 */
function routePayload(head: Head, attributes: Uint8Array): Uint8Array {
  const result = new Uint8Array(RTMSG_BYTES + attributes.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, numberOf(head.family));
  view.setUint8(1, head.length);
  view.setUint8(4, RT_TABLE_MAIN);
  view.setUint8(5, head.protocol);
  view.setUint8(7, head.type);
  view.setUint32(8, head.flags, true);
  result.set(attributes, RTMSG_BYTES);
  return result;
}
