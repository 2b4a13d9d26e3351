/** Installs a route of ours; one that is there already counts, one of somebody else is named (C§4.4, design, corrections). */

import { formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { Route } from "../desired-state.ts";
import { NetlinkError, type NetlinkSocket } from "../netlink/socket.ts";
import { getLink } from "./link.ts";
import { addRoute, isSameRoute, isToSameDestination, type KernelRoute, listRoutes } from "./route.ts";

const EEXIST = 17;
/** A conflicting route may vanish before it can be looked at; each further try needs another one to come and go. */
const TRIES = 3;

/**
 * @param index,name of the interface the route leads to
 * @throws TortieError `route-conflict` when another route to the same destination is there, `route-failed` for everything else
 */
export function installRoute(socket: NetlinkSocket, index: number, name: string, route: Route): void {
  for (let tries = 1; ; tries++) {
    try {
      addRoute(socket, index, route);
      return;
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error;
      if (error.errno !== EEXIST) {
        throw new TortieError("route-failed", `failed to add route (${describe(route, index)}) to interface ${name}: ${messageOf(error)}`);
      }
      const there = listRoutes(socket, route.destination.address.family).filter((found) => isToSameDestination(found, route));
      if (there.some((found) => isSameRoute(found, route, index))) return;
      const [other] = there;
      if (other !== undefined || tries === TRIES) throw conflict(socket, index, name, route, other);
    }
  }
}

function conflict(socket: NetlinkSocket, index: number, name: string, route: Route, other: KernelRoute | undefined): TortieError {
  const wanted = describe(route, index);
  const owner = other === undefined ? "(gone again)" : describeFound(other, interfaceName(socket, other.index));
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
function interfaceName(socket: NetlinkSocket, index: number): string {
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
