/**
 * Whether Felix makes this node's routes: by what it leaves in the kernel, which an agent without a view of other processes can see too.
 * Pure.
 */
import type { NetworkFacts } from "../../dataplane/linux/network-facts.ts";
import { VXLAN } from "./vxlan-facts.ts";

/** Protocol number of Felix' routes to other nodes' pods and of its blackhole routes. */
export const FELIX_ROUTE_PROTOCOL = 80;
export const FELIX_DEVICES: readonly string[] = [VXLAN[4].device, VXLAN[6].device];

/** @returns the sign of it in words; `undefined` when there is none */
export function signOfFelix({ foreignRoutes, foreignDevices }: NetworkFacts): string | undefined {
  const signs = [
    ...(foreignRoutes > 0 ? [`${foreignRoutes} routes of protocol ${FELIX_ROUTE_PROTOCOL}`] : []),
    ...foreignDevices.map((name) => `interface ${name}`),
  ];
  return signs.length === 0 ? undefined : signs.join(" and ");
}
