/**
 * Finds out whether a pod reaches its gateway, by whatever means: the entries that an ADD makes, or what a chained plugin put in their place
 * on purpose. `tuning` sets another MAC, for which the kernel flushes the neighbours of the link (net/ipv4/arp.c, arp_netdev_event);
 * `sbr` moves the routes into a table of its own and adds rules.
 */
import type { Address, Prefix } from "../../lib/addresses/address.ts";
import type { PodEnd, Route } from "../desired-state.ts";
import type { Netlink } from "../netlink/socket.ts";
import { getLink, type Link } from "../rtnetlink/link.ts";
import { findNeighbour } from "../rtnetlink/neighbour.ts";
import { RT_TABLE_MAIN, RTN_LOCAL, RTN_UNICAST, routeTaken } from "../rtnetlink/route.ts";
import { readSysctl } from "./sysctl.ts";

/**
 * Tells whether rules lead one of the pod's addresses to a table of its own that has the gateway of this route behind the link: what goes
 * further is then the business of whoever made that table. `sbr` leaves the default route out of it (plugins#297).
 */
export function isRoutedByRule(socket: Netlink, { index }: Link, { destination, gateway }: Route, sources: readonly Prefix[]): boolean {
  const to = gateway ?? destination.address;
  return sources.some(({ address: source }) => {
    const found = source.family === to.family ? routeTaken(socket, to, { source, index }) : undefined;
    return found?.type === RTN_UNICAST && found.index === index && found.table !== RT_TABLE_MAIN;
  });
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
