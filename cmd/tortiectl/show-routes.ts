/** Runs `tortiectl routes show`: reads from the kernel which routes to other nodes an agent has made. */
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import type { Netlink } from "../../dataplane/netlink/socket.ts";
import { type Link, listLinks } from "../../dataplane/rtnetlink/link.ts";
import { listPeers } from "../../dataplane/rtnetlink/neighbour.ts";
import { listNodeRoutes, type NodeKernelRoute } from "../../dataplane/rtnetlink/node-network.ts";
import { formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import type { RouteDocument } from "../../ui/contract.ts";
import { columns, type Terminal } from "./terminal.ts";

/** @returns exit status @throws NetlinkError */
export function showRoutes(json: boolean, terminal: Terminal): number {
  using host = new HostSockets();
  const routes = readRoutes(host.route);
  if (json) {
    terminal.out(JSON.stringify({ routes }, undefined, 2));
    return 0;
  }
  const rows = routes.map(({ destination, kind, gateway, device, peer }) => [
    destination,
    kind,
    gateway ?? "-",
    device ?? "-",
    peer ?? "-",
  ]);
  if (rows.length === 0) terminal.err("no routes to other nodes: an agent with --node-routes makes them");
  else for (const line of columns([["DESTINATION", "KIND", "VIA", "DEVICE", "NODE"], ...rows], "")) terminal.out(line);
  return 0;
}

function readRoutes(socket: Netlink): readonly RouteDocument[] {
  const links = new Map(listLinks(socket).map((link) => [link.index, link]));
  const peers = new Map([...links.values()].flatMap((link) => (link.kind === "vxlan" ? peersOf(socket, link) : [])));
  return [...listNodeRoutes(socket, 4), ...listNodeRoutes(socket, 6)].map((route) => documentOf(route, links, peers));
}

/** Pairs the inner address of each peer of a tunnel with the address of its node: its MAC is the same in both tables. */
function peersOf(socket: Netlink, { index }: Link): readonly (readonly [string, string])[] {
  const nodes = new Map(
    ([4, 6] as const).flatMap((family) => listPeers(socket, index, "forwarding", family)).map(({ mac, address }) => [mac, address]),
  );
  return ([4, 6] as const)
    .flatMap((family) => listPeers(socket, index, "neighbours", family))
    .flatMap(({ mac, address }) => {
      const node = nodes.get(mac);
      return node === undefined ? [] : [[formatAddress(address), formatAddress(node)] as const];
    });
}

function documentOf(
  { destination, gateway, index }: NodeKernelRoute,
  links: ReadonlyMap<number, Link>,
  peers: ReadonlyMap<string, string>,
): RouteDocument {
  const link = index === undefined ? undefined : links.get(index);
  const via = gateway && formatAddress(gateway);
  const isTunnel = link?.kind === "vxlan";
  return {
    destination: formatPrefix(destination),
    kind: link === undefined ? "blackhole" : isTunnel ? "vxlan" : "direct",
    gateway: via ?? null,
    device: link?.name ?? null,
    peer: (isTunnel ? peers.get(via ?? formatAddress(destination.address)) : via) ?? null,
  };
}
