/** Routes by rtnetlink: table main, protocol boot, unicast, no metric, no source, created exclusively (C§4.1). */
import { type Address, bitsOf, bytesOf, type Family, formatAddress, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Route } from "../desired-state.ts";
import { attributeMap, bytes, encodeAttributes, nest, readU32, u32 } from "../netlink/attribute.ts";
import { type Message, NLM_F_CREATE, NLM_F_EXCL } from "../netlink/message.ts";
import { DumpTooLargeError, type Netlink, NetlinkError, type Request } from "../netlink/socket.ts";
import { getLink } from "./link.ts";
import { addressOf, familyOf, numberOf } from "./wire.ts";

const RTM_NEWROUTE = 24;
const RTM_GETROUTE = 26;
/** Answers with the route that a lookup hits, instead of what follows from it (include/uapi/linux/rtnetlink.h). */
const RTM_F_FIB_MATCH = 0x2000;
const FLAGS_AT = 8;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_PREFSRC = 7;
const RTA_METRICS = 8;
const RTAX_MTU = 2;
const RTA_TABLE = 15;
const RT_TABLE_MAIN = 254;
const RTPROT_BOOT = 3;
const RTN_UNICAST = 1;
const ENOENT = 2;
const RTMSG_BYTES = 12;
const SCOPES = { universe: 0, link: 253 } as const;

/** A route of the main table as the kernel has it. */
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
  const { gateway } = route;
  const { address, length } = route.destination;
  const attributes = encodeAttributes([
    ...(length > 0 ? [bytes(RTA_DST, bytesOf(address))] : []),
    ...(gateway === undefined ? [] : [bytes(RTA_GATEWAY, bytesOf(gateway))]),
    u32(RTA_OIF, index),
    ...(route.mtu === undefined ? [] : [nest(RTA_METRICS, [u32(RTAX_MTU, route.mtu)])]),
  ]);
  const head = { family: address.family, length, protocol: RTPROT_BOOT, scope: SCOPES[route.scope], type: RTN_UNICAST };
  socket.request({ type: RTM_NEWROUTE, flags: NLM_F_CREATE | NLM_F_EXCL, payload: routePayload(head, attributes) });
}

/**
 * The unicast routes of the main table of one family, of one interface when `index` is given.
 * @param most number of routes that are read at most
 * @throws DumpTooLargeError, NetlinkError
 */
export function listRoutes(socket: Netlink, family: Family, index?: number, most?: number): KernelRoute[] {
  const filter = encodeAttributes([u32(RTA_TABLE, RT_TABLE_MAIN), ...(index === undefined ? [] : [u32(RTA_OIF, index)])]);
  const request = { type: RTM_GETROUTE, payload: routePayload({ family, length: 0, protocol: 0, scope: 0, type: RTN_UNICAST }, filter) };
  return dumpOrNothing(socket, request, most).flatMap((message) => parseRoute(message, family));
}

/**
 * Asks the kernel for the route that it takes to a destination, which costs the same whatever the size of the table. Only a destination of a
 * single address can be asked for.
 * @returns `undefined` when the kernel would take another one, of a shorter prefix or of another table: the wanted one may exist even so
 */
export function lookUpRoute(socket: Netlink, { destination: { address, length } }: Route): KernelRoute | undefined {
  const { family } = address;
  if (length !== bitsOf(family)) return undefined;
  const attributes = encodeAttributes([bytes(RTA_DST, bytesOf(address))]);
  const payload = routePayload({ family, length, protocol: 0, scope: 0, type: 0 }, attributes, 0);
  new DataView(payload.buffer).setUint32(FLAGS_AT, RTM_F_FIB_MATCH, true);
  try {
    const found = socket.request({ type: RTM_GETROUTE, payload }).flatMap((message) => parseRoute(message, family));
    return found.find(({ destination }) => destination.length === length);
  } catch (error) {
    // There is no route, or one that refuses packets.
    if (error instanceof NetlinkError) return undefined;
    throw error;
  }
}

/** A unicast route of the main table, or nothing. */
function parseRoute({ payload }: Message, family: Family): KernelRoute[] {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const attributes = attributeMap(payload.subarray(12));
  const table = readU32(attributes.get(RTA_TABLE)) ?? view.getUint8(4);
  if (familyOf(view.getUint8(0)) !== family || table !== RT_TABLE_MAIN || view.getUint8(7) !== RTN_UNICAST) return [];
  const destination = attributes.get(RTA_DST);
  const gateway = attributes.get(RTA_GATEWAY);
  return [
    {
      destination: {
        address: destination === undefined ? { family, value: 0n } : addressOf(family, destination),
        length: view.getUint8(1),
      },
      gateway: gateway === undefined ? undefined : addressOf(family, gateway),
      hasSource: attributes.has(RTA_PREFSRC),
      index: readU32(attributes.get(RTA_OIF)) ?? 0,
      scope: scopeName(view.getUint8(6)),
      protocol: view.getUint8(5),
    },
  ];
}

/** Whether the kernel's route goes to the same destination, address and length. */
export function isToSameDestination(found: KernelRoute, route: Route): boolean {
  return formatPrefix(found.destination) === formatPrefix(route.destination);
}

/** Whether the kernel's route is the wanted one through that interface. IPv6 routes have no scope of their own (C§4.4). */
export function isSameRoute(found: KernelRoute, route: Route, index: number): boolean {
  return (
    isToSameDestination(found, route) &&
    found.index === index &&
    (found.gateway === undefined ? "" : formatAddress(found.gateway)) ===
      (route.gateway === undefined ? "" : formatAddress(route.gateway)) &&
    (found.destination.address.family === 6 || found.scope === route.scope)
  );
}

/** A namespace that never had an IPv4 route has no main table yet (net/ipv4/fib_frontend.c, inet_dump_fib). */
function dumpOrNothing(socket: Netlink, request: Request, most?: number): Message[] {
  try {
    return socket.dump(request, most);
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENOENT) return [];
    throw error;
  }
}

function scopeName(number: number): string {
  return number === SCOPES.link ? "link" : number === SCOPES.universe ? "universe" : String(number);
}

/** struct rtmsg and attributes. */
function routePayload(
  head: { readonly family: Family; readonly length: number; readonly protocol: number; readonly scope: number; readonly type: number },
  attributes: Uint8Array,
  table = RT_TABLE_MAIN,
): Uint8Array {
  const result = new Uint8Array(RTMSG_BYTES + attributes.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, numberOf(head.family));
  view.setUint8(1, head.length);
  view.setUint8(4, table);
  view.setUint8(5, head.protocol);
  view.setUint8(6, head.scope);
  view.setUint8(7, head.type);
  result.set(attributes, RTMSG_BYTES);
  return result;
}

const EEXIST = 17;
/** A conflicting route may vanish before it can be looked at; each further try needs another one to come and go. */
const TRIES = 3;
/** What is read of a table at most to name the route that is in the way. */
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
 * The wanted route when it is there, else another one to its destination. The table is read only where the kernel cannot be asked for the
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

/** A route through several next hops, or through none, has no interface of its own. */
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
