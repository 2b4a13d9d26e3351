/**
 * Finds out whether a pod reaches its gateway, by whatever means: the entries that an ADD makes, or what a chained plugin put in their place
 * on purpose. `tuning` sets another MAC, for which the kernel flushes the neighbours of the link (net/ipv4/arp.c, arp_netdev_event);
 * `sbr` moves the routes into a table of its own and adds rules.
 */
import { type Address, bitsOf, formatAddress, type Prefix, parseAddress } from "../../lib/addresses/address.ts";
import type { PodEnd, Route } from "../desired-state.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink, type Link } from "../rtnetlink/link.ts";
import { findNeighbour } from "../rtnetlink/neighbour.ts";
import { RTN_LOCAL, RTN_UNICAST, routeTaken } from "../rtnetlink/route.ts";
import { readSysctl } from "./sysctl.ts";

/** Addresses for documentation (RFC 5737, RFC 3849), for which no pod has a route but the default one. */
const ANYWHERE = { 4: parseAddress("192.0.2.1"), 6: parseAddress("2001:db8::1") } as const;

/** Tells whether packets from one of the pod's addresses take a route like this one, whichever table has it. */
export function isTaken(socket: Netlink, { index }: Link, { destination, gateway }: Route, sources: readonly Prefix[]): boolean {
  const { family } = destination.address;
  const to = memberOf(destination);
  if (to === undefined) return false;
  return sources.some(({ address: source }) => {
    const found = source.family === family ? routeTaken(socket, to, source) : undefined;
    if (found?.type !== RTN_UNICAST || found.index !== index || found.destination.length !== destination.length) return false;
    return textOf(found.gateway) === textOf(gateway);
  });
}

/** An address that the route of this very destination decides about. */
function memberOf({ address, length }: Prefix): Address | undefined {
  if (length === 0) return ANYWHERE[address.family];
  return length === bitsOf(address.family) ? address : { ...address, value: address.value + 1n };
}

function textOf(address: Address | undefined): string {
  return address === undefined ? "" : formatAddress(address);
}

/** Lists the neighbours that a pod lacks, and that the host would not answer for. */
export function lackingNeighbours(pod: Netlink, link: Link, host: Netlink, hostEnd: string, neighbours: PodEnd["neighbours"]) {
  return neighbours
    .map((neighbour) => ({ neighbour, found: findNeighbour(pod, link.index, neighbour.address) }))
    .filter(({ neighbour: { address, mac }, found }) => found !== mac && !(found === undefined && isAnsweredFor(host, hostEnd, address)));
}

/**
 * Tells whether the host answers on a link when it is asked for the MAC of an IPv4 address: one of its own, or one that it would forward to
 * through another link (net/ipv4/arp.c, arp_process and arp_fwd_proxy). Without a default route it forwards to few.
 */
function isAnsweredFor(host: Netlink, hostEnd: string, address: Address): boolean {
  const route = routeTaken(host, address);
  if (route?.type === RTN_LOCAL) return true;
  const isOn = (setting: string, ...scopes: readonly string[]) =>
    scopes.some((scope) => readSysctl(`net/ipv4/conf/${scope}/${setting}`) === "1");
  const isElsewhere = route?.type === RTN_UNICAST && route.index !== undefined && route.index !== getLink(host, { name: hostEnd })?.index;
  return isElsewhere && isOn("forwarding", hostEnd) && isOn("proxy_arp", "all", hostEnd);
}
