/**
 * Reads what the host itself has in the kernel, apart from any attachment: links, addresses, routes, and signs of Felix. Routes are those
 * of the main table, without those to other nodes that an agent made by what the cluster said (review, S1: they must not decide about this
 * node's own addresses).
 */
import type { Address, Prefix } from "../../lib/addresses/address.ts";
import { TUNNEL_ALIAS } from "../dataplane.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import type { Netlink } from "../netlink/socket.ts";
import { ask, chainName } from "../nftables/message.ts";
import { listAddresses } from "../rtnetlink/address.ts";
import { type Link, listLinks } from "../rtnetlink/link.ts";
import { countRoutesOf, NODE_ROUTE_PROTOCOL } from "../rtnetlink/node-network.ts";
import { listRoutes } from "../rtnetlink/route.ts";

/** Matches how Felix' chains in nftables begin, its own and those of iptables-nft; after it has gone they still check sources. */
const FELIX_CHAIN = /^(filter-|raw-)?cali-/;

export type HostLink = Pick<Link, "index" | "name" | "alias" | "isUp" | "kind">;

export interface HostLinkAddress {
  readonly address: Address;
  /** Prefix length. */
  readonly length: number;
  readonly link: string;
  /** Identifies the link. */
  readonly index: number;
  readonly mtu: number;
  readonly isUp: boolean;
  /** RT_SCOPE_*: 0 is global, larger ones are narrower (include/uapi/linux/rtnetlink.h). */
  readonly scope: number;
}

export interface HostRoute {
  readonly destination: Prefix;
  readonly link: string;
  /** Says that it has a gateway or a preferred source, as routes of pods' addresses do not. */
  readonly leadsElsewhere: boolean;
}

/** Has what decides about routes to other nodes: the host's own addresses, and signs of another program that makes such routes. */
export interface NetworkFacts {
  readonly addresses: readonly HostLinkAddress[];
  /** How many routes of the main table have the protocol number that was asked for. */
  readonly foreignRoutes: number;
  /** Those of the interfaces asked for that are there and not ours. */
  readonly foreignDevices: readonly string[];
}

/** Lists every link of the host in one dump, to be compared with records (A§7.3). @throws NetlinkError */
export function hostLinks({ route }: HostSockets): readonly HostLink[] {
  return listLinks(route);
}

/** @throws NetlinkError */
export function readHostFacts({ route: socket }: HostSockets): {
  readonly addresses: readonly HostLinkAddress[];
  readonly routes: readonly HostRoute[];
} {
  const links = listLinks(socket);
  const names = new Map(links.map(({ index, name }) => [index, name]));
  const found = [...listRoutes(socket, 4), ...listRoutes(socket, 6)].filter(({ protocol }) => protocol !== NODE_ROUTE_PROTOCOL);
  const routes = found.map(({ destination, index, gateway, hasSource }) => ({
    destination,
    link: names.get(index) ?? "",
    leadsElsewhere: gateway !== undefined || hasSource,
  }));
  return { addresses: addressesOfHost(socket, links), routes };
}

/** Lists every address of every link. @throws NetlinkError */
export function addressesOfHost(socket: Netlink, links: readonly Link[] = listLinks(socket)): readonly HostLinkAddress[] {
  const byIndex = new Map(links.map((link) => [link.index, link]));
  return listAddresses(socket, 0).map(({ prefix: { address, length }, index, scope }) => {
    const { name: link = "", isUp = false, mtu = 0 } = byIndex.get(index) ?? {};
    return { address, length, index, link, mtu, isUp, scope };
  });
}

/** @throws NetlinkError */
export function readNetworkFacts({ route }: HostSockets, protocol: number, devices: readonly string[]): NetworkFacts {
  const links = listLinks(route);
  return {
    addresses: addressesOfHost(route, links),
    foreignRoutes: countRoutesOf(route, protocol),
    foreignDevices: links.filter(({ name, alias }) => devices.includes(name) && alias !== TUNNEL_ALIAS).map(({ name }) => name),
  };
}

/** Tells whether Felix' own rules are in the kernel: they check where pods send from, as ours do. @throws NetlinkError */
export function hasFelixChains({ netfilter }: HostSockets): boolean {
  return (["inet", "ip", "ip6"] as const).some((family) =>
    netfilter.dump(ask("chain", family)).some((found) => FELIX_CHAIN.test(chainName(found) ?? "")),
  );
}
