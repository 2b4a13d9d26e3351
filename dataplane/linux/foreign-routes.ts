/**
 * Finds routes and rules of other programs that take packets which should go to other nodes: a route of the same or a longer prefix that
 * the kernel prefers, or a rule that leads to another table first.
 */
import { bitsOf, type Family, formatAddress, formatPrefix, maskPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { isAttachmentAlias } from "../alias.ts";
import type { NodeRoute } from "../dataplane.ts";
import { TUNNEL_ALIAS } from "../dataplane.ts";
import { DumpTooLargeError } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { type Link, listLinks } from "../rtnetlink/link.ts";
import { NODE_ROUTE_METRIC, NODE_ROUTE_PROTOCOL } from "../rtnetlink/node-network.ts";
import { type FoundRoute, listMainTable, RT_TABLE_MAIN, RTN_UNICAST, routeTaken } from "../rtnetlink/route.ts";
import { hasRules } from "../rtnetlink/rule.ts";

/** Larger tables are those of routers with the routes of the Internet: nobody looks through them once a minute. */
const MOST_ROUTES = 20_000;
/** Lookups for rules, of which each costs a system call. */
const MOST_LOOKUPS = 256;
/** Names as iproute2 has them (etc/iproute2/rt_protos, include/uapi/linux/rtnetlink.h); a name says more than a number. */
const PROTOCOLS: Readonly<Record<number, string>> = {
  2: "kernel",
  3: "boot",
  4: "static",
  9: "ra",
  11: "zebra",
  12: "bird",
  16: "dhcp",
  17: "mrouted",
  18: "keepalived",
  42: "babel",
  80: "Felix (80)",
  186: "bgp",
  188: "ospf",
};

/** @returns one sentence per route or rule that takes packets @throws NetlinkError */
export function findForeignRoutes(socket: Netlink, routes: readonly NodeRoute[], families: readonly Family[]): readonly string[] {
  const links = new Map(listLinks(socket).map((link) => [link.index, link]));
  return families.flatMap((family) => {
    const wanted = routes.filter(({ kind, destination }) => kind !== "blackhole" && destination.address.family === family);
    if (wanted.length === 0) return [];
    const inMain = mainTable(socket, family).flatMap((found) => sentenceOf(found, wantedBy(wanted), links) ?? []);
    return [...inMain, ...ledByRules(socket, family, wanted, links)];
  });
}

function mainTable(socket: Netlink, family: Family): readonly FoundRoute[] {
  try {
    return listMainTable(socket, { family }, undefined, MOST_ROUTES);
  } catch (error) {
    if (error instanceof DumpTooLargeError) return [];
    throw error;
  }
}

type Finder = (destination: Prefix) => NodeRoute | undefined;

/** Finds the wanted route with the longest prefix that covers a destination, by one look per prefix length. */
function wantedBy(routes: readonly NodeRoute[]): Finder {
  const byPrefix = new Map(routes.map((route) => [keyOf(route.destination), route]));
  const lengths = [...new Set(routes.map(({ destination }) => destination.length))].sort((a, b) => b - a);
  return (destination) => {
    for (const length of lengths) {
      if (length > destination.length) continue;
      const found = byPrefix.get(keyOf(maskPrefix({ address: destination.address, length })));
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

function keyOf({ address, length }: Prefix): string {
  return `${address.value} ${length}`;
}

function sentenceOf(found: FoundRoute, wantedFor: Finder, links: ReadonlyMap<number, Link>): string | undefined {
  const { destination, protocol, priority, index, gateway, type } = found;
  if (protocol === NODE_ROUTE_PROTOCOL || isOfPod(found, links)) return undefined;
  const wanted = wantedFor(destination);
  if (wanted === undefined) return undefined;
  const isSame = wanted.destination.length === destination.length;
  if (isSame && priority > NODE_ROUTE_METRIC) return undefined;
  const what = isSame ? formatPrefix(destination) : `${formatPrefix(destination)}, a part of ${formatPrefix(wanted.destination)},`;
  const device = index === undefined ? "" : ` dev ${links.get(index)?.name ?? index}`;
  const via = gateway === undefined ? "" : ` via ${formatAddress(gateway)}`;
  const target = type === RTN_UNICAST ? `${via}${device}` || " several next hops" : " nowhere";
  return `${what} goes to${target.replace(/^ dev/, "")} by a route of protocol ${nameOf(protocol)}, not to ${aimOf(wanted)}: remove that route`;
}

/** Routes to this node's own containers and to its own ends of tunnels are meant to win. */
function isOfPod({ destination, gateway, index }: FoundRoute, links: ReadonlyMap<number, Link>): boolean {
  const alias = index === undefined ? undefined : links.get(index)?.alias;
  if (alias !== undefined && (alias === TUNNEL_ALIAS || isAttachmentAlias(alias))) return true;
  return gateway === undefined && index !== undefined && destination.length === bitsOf(destination.address.family);
}

/** Asks for the kernel's way only where there are rules besides its own three. */
function ledByRules(socket: Netlink, family: Family, routes: readonly NodeRoute[], links: ReadonlyMap<number, Link>): readonly string[] {
  if (!hasRules(socket, family)) return [];
  // Without the routes to gateways, whose packets a rule for the block leads away too.
  const blocks = routes.filter((route) => route.kind === "direct" || (route.kind === "tunnel" && route.gateway !== undefined));
  return blocks.slice(0, MOST_LOOKUPS).flatMap((wanted) => {
    const found = routeTaken(socket, wanted.destination.address);
    if (found === undefined || found.table === RT_TABLE_MAIN) return [];
    const device = found.index === undefined ? "" : ` dev ${links.get(found.index)?.name ?? found.index}`;
    const way = `table ${found.table}${device} (protocol ${nameOf(found.protocol)})`;
    return [`a rule leads ${formatPrefix(wanted.destination)} to ${way}, not to ${aimOf(wanted)}: see "ip -${family} rule"`];
  });
}

function aimOf(wanted: NodeRoute): string {
  if (wanted.kind === "tunnel") return wanted.device;
  return wanted.kind === "direct" ? formatAddress(wanted.gateway) : "nowhere";
}

function nameOf(protocol: number): string {
  return PROTOCOLS[protocol] ?? String(protocol);
}
