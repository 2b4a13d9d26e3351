/** What the host has that decides about routes to other nodes: its own addresses, and signs of another program that makes such routes. */
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/socket.ts";
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
export function readNetworkFacts(protocol: number, devices: readonly string[]): NetworkFacts {
  using socket = NetlinkSocket.open(NETLINK_ROUTE);
  const links = listLinks(socket);
  return {
    addresses: addressesOfHost(socket, new Map(links.map((link) => [link.index, link]))),
    foreignRoutes: countRoutesOf(socket, protocol),
    foreignDevices: links.filter(({ name, alias }) => devices.includes(name) && alias !== TUNNEL_ALIAS).map(({ name }) => name),
  };
}
