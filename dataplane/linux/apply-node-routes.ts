/** Routes to other nodes' pods: what the kernel has of ours, compared with what it shall have. Routes of others are never looked at. */
import { type Address, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import type { Netlink } from "../netlink/socket.ts";
import type { NodeRoute } from "../node-network.ts";
import { addNodeRoute, deleteNodeRoute, listNodeRoutes, type NodeKernelRoute, replaceNodeRoute } from "../rtnetlink/node-route.ts";
import type { Report } from "./apply-network.ts";

/** Indexes of the tunnel devices that are there, by name. */
type Devices = ReadonlyMap<string, number>;

/**
 * A route that goes another way than it should is replaced in one step: no packet meets a moment without it. What is not wanted goes
 * last, since a route that is about to change may lead through it.
 */
export function applyNodeRoutes(socket: Netlink, routes: readonly NodeRoute[], devices: Devices, report: Report): void {
  const missing = new Map(wantedRoutes(routes, devices).map((route) => [keyOf(route), route]));
  const others: NodeKernelRoute[] = [];
  for (const found of presentRoutes(socket)) {
    const wanted = missing.get(keyOf(found));
    if (wanted !== undefined && isSame(found, wanted)) missing.delete(keyOf(found));
    else others.push(found);
  }
  const outdated = new Map(others.map((route) => [keyOf(route), route]));
  for (const [key, route] of missing) {
    const before = outdated.get(key);
    if (before === undefined) report.try(`route ${describe(route)} added`, () => addNodeRoute(socket, route));
    else if (report.try(`route ${describe(before)} replaced by ${describe(route)}`, () => replaceNodeRoute(socket, route)))
      others.splice(others.indexOf(before), 1);
  }
  for (const route of others) report.try(`route ${describe(route)} removed`, () => deleteNodeRoute(socket, route));
}

function presentRoutes(socket: Netlink): readonly NodeKernelRoute[] {
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
  if (!isEqual(found.gateway, wanted.gateway) || found.isOnLink !== wanted.isOnLink) return false;
  return wanted.index === found.index || (wanted.index === undefined && wanted.gateway !== undefined);
}

function isEqual(one: Address | undefined, other: Address | undefined): boolean {
  return one?.family === other?.family && one?.value === other?.value;
}

/** Cheaper than the text of a prefix: a large cluster has thousands. */
function keyOf({ destination: { address, length } }: NodeKernelRoute): string {
  return `${address.family} ${address.value} ${length}`;
}

function describe({ destination, gateway, index, isOnLink }: NodeKernelRoute): string {
  const via = gateway === undefined ? "" : ` via ${formatAddress(gateway)}`;
  const way = gateway === undefined && index === undefined ? " to nowhere" : via;
  return `${formatPrefix(destination)}${way}${isOnLink ? " through the tunnel" : ""}`;
}
