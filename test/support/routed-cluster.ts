/** Values of the routes' model, from texts. */

import type { OwnNode, ProvenNode, RoutedBlock, RoutedPool, TunnelEnd } from "../../agent/routes/model.ts";
import type { NodeNetwork } from "../../dataplane/dataplane.ts";
import { type Address, formatAddress, formatPrefix } from "../../lib/addresses/address.ts";
import { Claimed } from "../../lib/system/claimed.ts";
import { address, prefix } from "./addresses.ts";

/** One value a family. */
function each<T>(values: readonly T[], addressOf: (value: T) => Address): Partial<Record<4 | 6, T>> {
  return Object.fromEntries(values.map((value) => [addressOf(value).family, value]));
}

const ends = (texts: readonly string[]) =>
  each(
    texts.map((text): TunnelEnd => ({ address: address(text) })),
    (end) => end.address,
  );

/** @param addresses as Calico records them: "172.20.1.2/24" @param tunnels addresses inside the tunnels, named by the node and proven */
export function routedNode(name: string, addresses: readonly string[], tunnels: readonly string[] = []): ProvenNode {
  const recorded = each(addresses.map(prefix), (one) => one.address);
  const proven = ends(tunnels);
  const named = Object.fromEntries(Object.entries(proven).map(([family, end]) => [family, new Claimed(end)]));
  return {
    name,
    createdAt: "2026-01-01T00:00:00Z",
    recorded,
    internal: {},
    labels: {},
    given: [],
    claims: { tunnels: named, ranges: {} },
    tunnels: proven,
    ranges: [],
  };
}

export function ownNode(name: string, addresses: readonly string[], tunnels: readonly string[] = []): OwnNode {
  const underlay = each(
    addresses.map((text) => ({ address: prefix(text), mtu: 1500 })),
    (one) => one.address.address,
  );
  return { name, underlay, tunnels: ends(tunnels) };
}

/** @param borrowed "10.9.2.5 node1" */
export function routedBlock(cidr: string, owner?: string, borrowed: readonly string[] = []): RoutedBlock {
  return {
    cidr: prefix(cidr),
    ...(owner === undefined ? {} : { owner }),
    borrowed: borrowed.map((entry) => {
      const [ip = "", node = ""] = entry.split(" ");
      return { address: address(ip), node };
    }),
    isUsed: true,
    tunnelEnds: [],
  };
}

export function routedPool(cidr: string, change: Partial<RoutedPool> = {}): RoutedPool {
  return {
    name: "pool",
    cidr: prefix(cidr),
    vxlanMode: "Never",
    ipipMode: "Never",
    natOutgoing: true,
    servesTunnels: true,
    isDeleting: false,
    nodeSelector: "all()",
    ...change,
  };
}

/** "10.9.2.0/26 via 172.20.1.2", "10.9.3.0/26 via 10.9.3.0 dev vxlan.calico", "blackhole 10.9.1.0/26", in their order. */
export function routeTexts({ routes }: NodeNetwork): string[] {
  return routes.map((route) => {
    const destination = formatPrefix(route.destination);
    if (route.kind === "blackhole") return `blackhole ${destination}`;
    const via = route.gateway === undefined ? "" : ` via ${formatAddress(route.gateway)}`;
    return `${destination}${via}${route.kind === "tunnel" ? ` dev ${route.device}` : ""}`;
  });
}
