/** Routes to other nodes' pods: what the kernel has of ours, compared with what it shall have. Routes of others are never looked at. */
import { type Address, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import type { NodeRoute } from "../node-network.ts";
import { addNodeRoute, deleteNodeRoute, listNodeRoutes, type NodeKernelRoute } from "../rtnetlink/node-route.ts";
import type { Report } from "./apply-network.ts";

/** Indexes of the tunnel devices that are there, by name. */
type Devices = ReadonlyMap<string, number>;

/** A route that goes another way is removed here, and made again by `addMissingRoutes`. */
export function removeOtherRoutes(socket: NetlinkSocket, routes: readonly NodeRoute[], devices: Devices, report: Report): void {
  const wanted = new Map(wantedRoutes(routes, devices).map((route) => [formatPrefix(route.destination), route]));
  for (const found of presentRoutes(socket)) {
    const here = wanted.get(formatPrefix(found.destination));
    if (here !== undefined && isSame(found, here)) continue;
    report.try(`route ${describe(found)} removed`, () => deleteNodeRoute(socket, found));
  }
}

export function addMissingRoutes(socket: NetlinkSocket, routes: readonly NodeRoute[], devices: Devices, report: Report): void {
  const present = new Set(presentRoutes(socket).map(({ destination }) => formatPrefix(destination)));
  for (const route of wantedRoutes(routes, devices)) {
    if (present.has(formatPrefix(route.destination))) continue;
    report.try(`route ${describe(route)} added`, () => addNodeRoute(socket, route));
  }
}

function presentRoutes(socket: NetlinkSocket): readonly NodeKernelRoute[] {
  return [...listNodeRoutes(socket, 4), ...listNodeRoutes(socket, 6)];
}

/** A route through a tunnel that could not be made is left out: the failure of the tunnel says why. */
function wantedRoutes(routes: readonly NodeRoute[], devices: Devices): readonly NodeKernelRoute[] {
  return routes.flatMap((route): NodeKernelRoute[] => {
    const { destination } = route;
    if (route.kind === "blackhole") return [{ destination, isOnLink: false }];
    if (route.kind === "direct") return [{ destination, gateway: route.gateway, isOnLink: false }];
    const { gateway } = route;
    const index = devices.get(route.device);
    if (index === undefined) return [];
    return [gateway === undefined ? { destination, index, isOnLink: false } : { destination, gateway, index, isOnLink: true }];
  });
}

/** The kernel has chosen the link of a route that names none but a gateway. */
function isSame(found: NodeKernelRoute, wanted: NodeKernelRoute): boolean {
  if (textOf(found.gateway) !== textOf(wanted.gateway) || found.isOnLink !== wanted.isOnLink) return false;
  return wanted.index === found.index || (wanted.index === undefined && wanted.gateway !== undefined);
}

function textOf(address: Address | undefined): string {
  return address === undefined ? "" : formatAddress(address);
}

function describe({ destination, gateway, index, isOnLink }: NodeKernelRoute): string {
  const via = gateway === undefined ? "" : ` via ${formatAddress(gateway)}`;
  const way = gateway === undefined && index === undefined ? " to nowhere" : via;
  return `${formatPrefix(destination)}${way}${isOnLink ? " through the tunnel" : ""}`;
}
