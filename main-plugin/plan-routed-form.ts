/**
 * Plans what the kernel must hold for a link, once its addresses are known (C§4.1-4.5): values and order of the form `routed` are here, those
 * of the form `endpoint` in plan-endpoint-form.ts.
 */

import type { DesiredState, Route, Sysctl } from "../dataplane/desired-state.ts";
import { type Family, hostPrefix, type Prefix } from "../lib/addresses/address.ts";
import { type AttachmentPlan, addressOf } from "./plan.ts";
import { endpointState, sysctl } from "./plan-endpoint-form.ts";

/** MAC of every host end (C§4.1). */
const HOST_MAC = "ee:ee:ee:ee:ee:ee";
/** EUI-64 link-local address that belongs to HOST_MAC (RFC 4291 appendix A): the pod's IPv6 next hop. */
const HOST_LINK_LOCAL = addressOf("fe80::ecee:eeff:feee:eeee");
/**
 * The pod's IPv4 next hop: on no interface, answered by proxy ARP (C§4.1). The kernel answers only where it has a route to that address
 * through another interface (net/ipv4/arp.c, arp_fwd_proxy), and a laptop without a default route has none; so on a node without
 * Felix the pod is told the answer in advance.
 */
const IPV4_GATEWAY = addressOf("169.254.1.1");

/**
 * @param addresses in the order of the result, single hosts
 * @param hostRoutes false only for the target of a live migration (C§2.3 S9)
 */
export function desiredStateOf(plan: AttachmentPlan, addresses: readonly Prefix[], hostRoutes: boolean): DesiredState {
  if (plan.routers !== undefined) return endpointState(plan, plan.routers, addresses, hostRoutes);
  const families = new Set(addresses.map((prefix) => prefix.address.family));
  return {
    device: plan.device,
    host: {
      name: plan.hostInterface,
      mac: HOST_MAC,
      owner: plan.owner,
      predecessors: plan.predecessors,
      sysctls: hostSysctls(plan, families),
      addresses: families.has(6) ? [{ address: HOST_LINK_LOCAL, length: 64 }] : [],
      routes: hostRoutes ? addresses.map((destination) => ({ destination, scope: "link" })) : [],
    },
    pod: {
      name: plan.podInterface,
      mac: plan.mac,
      sysctlsBeforeUp: families.has(6) ? [sysctl(`net/ipv6/conf/${plan.podInterface}/accept_dad`, "0")] : [],
      sysctls: podSysctls(plan, families),
      addresses,
      routes: podRoutes(plan.destinations, families),
      neighbours: plan.forwardOnNode && families.has(4) ? [{ address: IPV4_GATEWAY, mac: HOST_MAC }] : [],
    },
  };
}

/**
 * Lists the settings of C§4.3, in its order. Without Felix no other program ensures that a container sends from its own addresses only; the
 * kernel does with strict reverse path filtering, which IPv6 does not have.
 */
function hostSysctls({ hostInterface: name, forwardOnNode }: AttachmentPlan, families: ReadonlySet<Family>): Sysctl[] {
  const ipv4 = `net/ipv4/conf/${name}`;
  const ipv6 = `net/ipv6/conf/${name}`;
  const sysctls: Sysctl[] = [];
  if (families.has(4)) {
    sysctls.push(
      sysctl(`${ipv4}/route_localnet`, "1"),
      { path: `net/ipv4/neigh/${name}/proxy_delay`, value: "0", required: false },
      sysctl(`${ipv4}/proxy_arp`, "1"),
      sysctl(`${ipv4}/forwarding`, "1"),
    );
    if (forwardOnNode) sysctls.push(sysctl(`${ipv4}/rp_filter`, "1"));
  }
  if (families.has(6)) {
    sysctls.push(
      sysctl(`${ipv6}/accept_dad`, "0"),
      sysctl(`${ipv6}/disable_ipv6`, "0"),
      sysctl(`${ipv6}/proxy_ndp`, "1"),
      sysctl(`${ipv6}/forwarding`, "1"),
    );
  }
  sysctls.push({ path: `${ipv6}/accept_ra`, value: "0", required: false });
  return sysctls;
}

/** Enables every family in use in the pod, which forwards only if the configuration says so (C§4.2). */
function podSysctls(plan: AttachmentPlan, families: ReadonlySet<Family>): Sysctl[] {
  const forwarding = plan.allowIpForwarding ? "1" : "0";
  const sysctls: Sysctl[] = [];
  if (families.has(6)) {
    sysctls.push(...["all", "default", "lo"].map((scope) => sysctl(`net/ipv6/conf/${scope}/disable_ipv6`, "0")));
  }
  if (families.has(4)) sysctls.push(sysctl("net/ipv4/ip_forward", forwarding));
  if (families.has(6)) sysctls.push(sysctl("net/ipv6/conf/all/forwarding", forwarding));
  return sysctls;
}

/** Leads the default routes to the host end: proxy ARP answers for 169.254.1.1, and IPv6 uses its link-local address (C§4.2). */
function podRoutes(destinations: readonly Prefix[], families: ReadonlySet<Family>): Route[] {
  const ofFamily = (family: Family) => destinations.filter(({ address }) => address.family === family);
  const routes: Route[] = [];
  if (families.has(4)) {
    routes.push({ destination: hostPrefix(IPV4_GATEWAY), scope: "link" });
    routes.push(...ofFamily(4).map((destination): Route => ({ destination, gateway: IPV4_GATEWAY, scope: "universe" })));
  }
  if (families.has(6)) {
    routes.push(...ofFamily(6).map((destination): Route => ({ destination, gateway: HOST_LINK_LOCAL, scope: "universe" })));
  }
  return routes;
}
