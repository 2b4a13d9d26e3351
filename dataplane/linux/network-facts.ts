/** What the host has that decides about routes to other nodes: its own addresses, and signs of another program that makes such routes. */
import type { HostSockets } from "../netlink/host-sockets.ts";
import { TUNNEL_ALIAS } from "../node-network.ts";
import { listLinks } from "../rtnetlink/link.ts";
import { countRoutesOf } from "../rtnetlink/node-route.ts";
import { addressesOfHost, type HostLinkAddress } from "./host-facts.ts";

export interface NetworkFacts {
  readonly addresses: readonly HostLinkAddress[];
  /** How many routes of the main table have the protocol number that was asked for. */
  readonly foreignRoutes: number;
  /** Those of the interfaces asked for that are there and not ours. */
  readonly foreignDevices: readonly string[];
}

/** @throws NetlinkError */
export function readNetworkFacts({ route }: HostSockets, protocol: number, devices: readonly string[]): NetworkFacts {
  const links = listLinks(route);
  return {
    addresses: addressesOfHost(route, new Map(links.map((link) => [link.index, link]))),
    foreignRoutes: countRoutesOf(route, protocol),
    foreignDevices: links.filter(({ name, alias }) => devices.includes(name) && alias !== TUNNEL_ALIAS).map(({ name }) => name),
  };
}
