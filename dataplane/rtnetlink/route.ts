/** Reads and makes routes by rtnetlink: table main, protocol boot, unicast, no metric, no source, created exclusively (C§4.1). */
import { type Address, bitsOf, bytesOf, type Family, formatAddress, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Route } from "../desired-state.ts";
import {
  type Attribute,
  addressOf,
  bytes,
  DumpTooLargeError,
  familyOf,
  type Message,
  NetlinkError,
  NLM_F_CREATE,
  NLM_F_EXCL,
  nest,
  numberOf,
  parseStructure,
  readU32,
  structure,
  u32,
  unlessMissing,
} from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink } from "./link.ts";

export const RTM_NEWROUTE = 24;
export const RTM_GETROUTE = 26;
/** Answers with the route that a lookup hits, instead of what follows from it (include/uapi/linux/rtnetlink.h). */
const RTM_F_FIB_MATCH = 0x2000;
/** Names the table of that route too. Without it an IPv4 answer says "main"; IPv6 always names the table, and refuses the flag (net/ipv6/route.c). */
const RTM_F_LOOKUP_TABLE = 0x1000;
const RTA_DST = 1;
const RTA_SRC = 2;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
export const RTA_PRIORITY = 6;
const RTA_PREFSRC = 7;
const RTA_METRICS = 8;
const RTAX_MTU = 2;
const RTA_TABLE = 15;
export const RT_TABLE_MAIN = 254;
const RTPROT_BOOT = 3;
export const RTN_UNICAST = 1;
export const RTN_LOCAL = 2;
export const RTMSG_BYTES = 12;
const SCOPES = { universe: 0, link: 253 } as const;

/** Describes a route of the main table as the kernel has it. */
export interface KernelRoute {
  readonly destination: Prefix;
  readonly gateway: Address | undefined;
  /** The route names the source address of what this host sends there (RTA_PREFSRC). */
  readonly hasSource: boolean;
  /** 0 for a route through no or several interfaces. */
  readonly index: number;
  /** "universe", "link", or a number in decimal. */
  readonly scope: string;
  /** Number of the program that made it (RTPROT_*, include/uapi/linux/rtnetlink.h). */
  readonly protocol: number;
}

/** @throws NetlinkError; EEXIST when there is a route to that destination, through whatever interface */
function addRoute(socket: Netlink, index: number, route: Route): void {
  const { destination, gateway, mtu } = route;
  const attributes = [
    ...wayAttributes(destination, gateway, index),
    ...(mtu === undefined ? [] : [nest(RTA_METRICS, [u32(RTAX_MTU, mtu)])]),
  ];
  const { address, length } = destination;
  const head = { family: address.family, length, protocol: RTPROT_BOOT, scope: SCOPES[route.scope], type: RTN_UNICAST };
  socket.request({ type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, payload: routePayload(head, attributes) });
}

/**
 * Lists the unicast routes of the main table of one family, of one interface when `index` is given.
 * @param most number of routes that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function listRoutes(socket: Netlink, family: Family, index?: number, most?: number): KernelRoute[] {
  const found = listMainTable(socket, { family, type: RTN_UNICAST }, index, most);
  return found.filter(({ type }) => type === RTN_UNICAST).map(kernelRoute);
}

/**
 * Asks the kernel for the route that it takes to a destination, which costs the same whatever the size of the table. Only a destination of a
 * single address can be asked for.
 * @returns `undefined` when the kernel would take another one, of a shorter prefix or of another table: the wanted one may exist even so
 */
export function lookUpRoute(socket: Netlink, { destination: { address, length } }: Route): KernelRoute | undefined {
  if (length !== bitsOf(address.family)) return undefined;
  const found = routeTaken(socket, address);
  if (found?.type !== RTN_UNICAST || found.table !== RT_TABLE_MAIN || found.destination.length !== length) return undefined;
  return kernelRoute(found);
}

/**
 * Finds the route, of whatever table, that packets to an address take, as `ip route get` shows it.
 * @param sender address of the sender, which rules may go by, and the link to a gateway of that link alone
 * @returns `undefined` where they are not sent
 */
export function routeTaken(
  socket: Netlink,
  to: Address,
  sender?: { readonly source: Address; readonly index: number },
): FoundRoute | undefined {
  const { family } = to;
  const sourceLength = sender === undefined ? 0 : bitsOf(family);
  const head = { family, length: bitsOf(family), sourceLength, table: 0, flags: RTM_F_FIB_MATCH | (family === 4 ? RTM_F_LOOKUP_TABLE : 0) };
  // A lookup for IPv4 that names a link finds one also where there is no route (net/ipv4/route.c, ip_route_output_key_hash_rcu).
  const way = wayAttributes({ address: to, length: bitsOf(family) }, undefined, family === 6 ? sender?.index : undefined);
  const from = sender === undefined ? [] : [bytes(RTA_SRC, bytesOf(sender.source))];
  try {
    const [message] = socket.request({ type: RTM_GETROUTE, payload: routePayload(head, [...way, ...from]) });
    return message && parseRoute(family, message);
  } catch (error) {
    // No route leads there, or one refuses packets.
    if (error instanceof NetlinkError) return undefined;
    throw error;
  }
}

function kernelRoute(found: FoundRoute): KernelRoute {
  return { ...found, index: found.index ?? 0, scope: scopeName(found.scope) };
}

/** Tells whether the kernel's route goes to the same destination, address and length. */
export function isToSameDestination(found: KernelRoute, route: Route): boolean {
  return formatPrefix(found.destination) === formatPrefix(route.destination);
}

/** Tells whether the kernel's route is the wanted one through that interface. IPv6 routes have no scope of their own (C§4.4). */
export function isSameRoute(found: KernelRoute, route: Route, index: number): boolean {
  return (
    isToSameDestination(found, route) &&
    found.index === index &&
    (found.gateway === undefined ? "" : formatAddress(found.gateway)) ===
      (route.gateway === undefined ? "" : formatAddress(route.gateway)) &&
    (found.destination.address.family === 6 || found.scope === route.scope)
  );
}

/**
 * Lists the routes of the main table that the kernel has of this kind; a kernel before 4.20 does not filter.
 * @param most number of messages that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function listMainTable(socket: Netlink, head: RouteHead, index?: number, most?: number): FoundRoute[] {
  const filter = [u32(RTA_TABLE, RT_TABLE_MAIN), ...(index === undefined ? [] : [u32(RTA_OIF, index)])];
  const request = { type: RTM_GETROUTE, payload: routePayload(head, filter) };
  // A namespace that never had an IPv4 route has no main table yet (net/ipv4/fib_frontend.c, inet_dump_fib).
  const messages = unlessMissing(() => socket.dump(request, most)) ?? [];
  return messages.flatMap((message) => parseRouteOf(head.family, message) ?? []);
}

function scopeName(number: number): string {
  return number === SCOPES.link ? "link" : number === SCOPES.universe ? "universe" : String(number);
}

/** Describes struct rtmsg, as far as it is not zero. */
interface RouteHead {
  readonly family: Family;
  readonly length?: number;
  readonly sourceLength?: number;
  /** RT_TABLE_MAIN when absent. */
  readonly table?: number;
  readonly protocol?: number;
  readonly scope?: number;
  readonly type?: number;
  readonly flags?: number;
}

export function routePayload(head: RouteHead, attributes: readonly Attribute[]): Uint8Array {
  const { family, length = 0, sourceLength = 0, table = RT_TABLE_MAIN, protocol = 0, scope = 0, type = 0, flags = 0 } = head;
  const fill = (view: DataView) => {
    for (const [at, value] of [numberOf(family), length, sourceLength, 0, table, protocol, scope, type].entries()) view.setUint8(at, value);
    view.setUint32(8, flags, true);
  };
  return structure(RTMSG_BYTES, fill, attributes);
}

/** Reads what the kernel answers about one route of the main table; `undefined` for one of another table or family. */
export function parseRouteOf(family: Family, message: Message) {
  const found = parseRoute(family, message);
  return found?.table === RT_TABLE_MAIN ? found : undefined;
}

export type FoundRoute = NonNullable<ReturnType<typeof parseRoute>>;

function parseRoute(family: Family, message: Message) {
  const { view, attributes } = parseStructure(message, RTMSG_BYTES);
  if (familyOf(view.getUint8(0)) !== family) return undefined;
  const [destination, gateway] = [attributes.get(RTA_DST), attributes.get(RTA_GATEWAY)];
  return {
    table: readU32(attributes.get(RTA_TABLE)) ?? view.getUint8(4),
    priority: readU32(attributes.get(RTA_PRIORITY)) ?? 0,
    destination: {
      address: destination === undefined ? { family, value: 0n } : addressOf(family, destination),
      length: view.getUint8(1),
    },
    gateway: gateway === undefined ? undefined : addressOf(family, gateway),
    index: readU32(attributes.get(RTA_OIF)),
    hasSource: attributes.has(RTA_PREFSRC),
    protocol: view.getUint8(5),
    scope: view.getUint8(6),
    type: view.getUint8(7),
    flags: view.getUint32(8, true),
  };
}

/** Writes destination, gateway and link, as far as they are given. */
export function wayAttributes({ address, length }: Prefix, gateway: Address | undefined, index: number | undefined): Attribute[] {
  return [
    ...(length > 0 ? [bytes(RTA_DST, bytesOf(address))] : []),
    ...(gateway === undefined ? [] : [bytes(RTA_GATEWAY, bytesOf(gateway))]),
    ...(index === undefined ? [] : [u32(RTA_OIF, index)]),
  ];
}

const EEXIST = 17;
/** Limits tries: a conflicting route may vanish before it can be looked at; each further try needs another one to come and go. */
const TRIES = 3;
/** Limits what is read of a table to name the route that is in the way. */
const MOST_READ = 4096;

/**
 * @param index,name of the interface the route leads to
 * @throws TortieError `route-conflict` when another route to the same destination is there, `route-failed` for everything else
 */
export function installRoute(socket: Netlink, index: number, name: string, route: Route): void {
  for (let tries = 1; ; tries++) {
    try {
      addRoute(socket, index, route);
      return;
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      if (error.errno !== EEXIST) {
        throw new TortieError("route-failed", `failed to add route (${describe(route, index)}) to interface ${name}: ${messageOf(error)}`);
      }
      const other = findOrRefuse(socket, index, name, route);
      if (other !== undefined && isSameRoute(other, route, index)) return;
      if (other !== undefined || tries === TRIES) throw conflict(socket, index, name, route, other);
    }
  }
}

function findOrRefuse(socket: Netlink, index: number, name: string, route: Route): KernelRoute | undefined {
  try {
    return findRoute(socket, index, route);
  } catch (error) {
    if (error instanceof DumpTooLargeError) throw conflict(socket, index, name, route, undefined);
    throw error;
  }
}

/**
 * Finds the wanted route when it is there, else another one to its destination. The table is read only where the kernel cannot be asked for the
 * route, and up to a limit: a container may have filled that of its sandbox, and a host may have the routes of the Internet.
 * @throws DumpTooLargeError, after which the socket must not be used
 */
function findRoute(socket: Netlink, index: number, route: Route): KernelRoute | undefined {
  const { family } = route.destination.address;
  const own = listRoutes(socket, family, index, MOST_READ).find((found) => isSameRoute(found, route, index));
  const hit = own ?? lookUpRoute(socket, route);
  return hit ?? listRoutes(socket, family, undefined, MOST_READ).find((found) => isToSameDestination(found, route));
}

function conflict(socket: Netlink, index: number, name: string, route: Route, other: KernelRoute | undefined): TortieError {
  const wanted = describe(route, index);
  const owner =
    other === undefined ? `(gone again, or one of more than ${MOST_READ})` : describeFound(other, interfaceName(socket, other.index));
  if (route.gateway === undefined) {
    return new TortieError("route-conflict", `route (${wanted}) already exists for an interface other than '${name}': route ${owner}`);
  }
  const family = route.destination.address.family;
  return new TortieError(
    "route-conflict",
    `failed to add IPv${family} route for ${formatPrefix(route.destination)} via ${formatAddress(route.gateway)}: file exists: route (${wanted}) is wanted for ${name}, there is route ${owner}`,
  );
}

/** Names the interface of a route; one through several next hops, or without any, has no interface of its own. */
function interfaceName(socket: Netlink, index: number): string {
  return (index === 0 ? undefined : getLink(socket, { index })?.name) ?? "none";
}

function describe(route: Route, index: number): string {
  const gateway = route.gateway === undefined ? "" : `, Via: ${formatAddress(route.gateway)}`;
  return `Ifindex: ${index}, Dst: ${formatPrefix(route.destination)}${gateway}, Scope: ${route.scope}`;
}

function describeFound(found: KernelRoute, name: string): string {
  const gateway = found.gateway === undefined ? "" : `, Via: ${formatAddress(found.gateway)}`;
  return `(Ifindex: ${found.index}, Dst: ${formatPrefix(found.destination)}${gateway}, Scope: ${found.scope}, Iface: ${name})`;
}
