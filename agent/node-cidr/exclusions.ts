/** Addresses of a range that are never given out: the node's own, and what it routes elsewhere (A§4.5). Pure. */

import type { Exclusion } from "../../ipam-plugin/host-scope/host-scope.ts";
import { type Address, contains, covers, formatPrefix, hostPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { LinkAddress } from "./host-address.ts";

/** A route of the host's main table. */
interface HostRoute {
  readonly destination: Prefix;
  readonly link: string;
  /** It has a gateway or a preferred source, as routes of pods' addresses do not. */
  readonly leadsElsewhere: boolean;
}

export interface HostFacts {
  readonly addresses: readonly LinkAddress[];
  readonly routes: readonly HostRoute[];
}

export interface Excluded {
  readonly exclusions: readonly Exclusion[];
  /** Routes wider than a range: they exclude nothing, and are worth a word. */
  readonly shadowing: readonly string[];
}

/** @param isOwn an address of the agent itself, which has a grant */
export function exclusionsOf(
  ranges: readonly Prefix[],
  nodeAddresses: readonly Address[],
  host: HostFacts,
  isOwn: (address: Address) => boolean,
): Excluded {
  const inRange = (address: Address) => ranges.some((range) => contains(range, address)) && !isOwn(address);
  const ofNode = nodeAddresses.filter(inRange).map((address) => ({ prefix: hostPrefix(address), reason: "address of the node" }));
  const ofLinks = host.addresses
    .filter(({ address }) => inRange(address) && !nodeAddresses.some((one) => one.family === address.family && one.value === address.value))
    .map(({ address, link }) => ({ prefix: hostPrefix(address), reason: `address of ${link}` }));
  const ownLinks = new Set(host.addresses.filter(({ address }) => isOwn(address)).map(({ link }) => link));
  const routes = host.routes.filter(
    ({ destination, link, leadsElsewhere }) => leadsElsewhere && destination.length > 0 && !ownLinks.has(link),
  );
  const ofRoutes = routes
    .filter(({ destination }) => ranges.some((range) => covers(range, destination)))
    .map(({ destination, link }) => ({ prefix: destination, reason: `route ${formatPrefix(destination)} dev ${link}` }));
  const shadowing = routes.flatMap(({ destination, link }) =>
    ranges
      .filter((range) => destination.length < range.length && covers(destination, range))
      .map((range) => `route ${formatPrefix(destination)} dev ${link} is wider than the range ${formatPrefix(range)}`),
  );
  return { exclusions: [...ofNode, ...ofLinks, ...ofRoutes], shadowing };
}
