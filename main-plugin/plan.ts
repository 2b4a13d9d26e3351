/**
 * Makes the two pure decisions of an ADD: what will be attached (`planAttachment`), and, once addresses are known, everything the kernel
 * must hold for it (`desiredStateOf`). Values and order are those of C§4.1-4.5.
 */

import type { AttachmentName } from "../dataplane/alias.ts";
import type { DesiredState, Route, Sysctl } from "../dataplane/desired-state.ts";
import { type Address, type Family, hostPrefix, maskPrefix, type Prefix, parseAddress, parsePrefix } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { AddCall } from "./call.ts";
import { endpointState } from "./plan-endpoint-form.ts";
import type { Workload } from "./workload.ts";

/** What an ADD has decided before it has addresses. */
export interface AttachmentPlan {
  readonly hostInterface: string;
  readonly podInterface: string;
  readonly owner: AttachmentName;
  /** Containers that the workload's record names: their link may be replaced. */
  readonly predecessors: readonly string[];
  readonly device: DesiredState["device"];
  readonly mac: string | undefined;
  /** Destinations of the pod's routes, both families mixed. */
  readonly destinations: readonly Prefix[];
  readonly allowIpForwarding: boolean;
  /** No Felix runs beside us: the node itself must forward. */
  readonly forwardOnNode: boolean;
  /** Gateways of the link form `endpoint`; absent for the form `routed`. */
  readonly routers?: readonly Address[];
}

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

const DEFAULT_ROUTES: readonly Prefix[] = ["0.0.0.0", "::"].map((text) => ({ address: addressOf(text), length: 0 }));

/**
 * @param workload absent: the cluster cannot be asked, and the requests of the workload are unknown
 * @param routers `routersFor` of the call: they make it a link of form `endpoint`
 */
export function planAttachment(call: AddCall, workload: Workload | undefined, routers?: readonly Address[]): AttachmentPlan {
  const { config } = call;
  return {
    hostInterface: call.hostInterface,
    podInterface: call.podInterface,
    owner: call.owner,
    predecessors: workload?.recorded === undefined ? [] : [workload.recorded.containerID],
    device: {
      kind: config.deviceType === "netkit" ? "netkit" : "veth",
      mtu: Math.max(0, call.mtu),
      queues: config.numQueues,
      ...offloadOf(config, routers),
    },
    mac: workload?.requests.mac,
    destinations: routeDestinations(config, call.ipamSection.destinations),
    allowIpForwarding: config.containerSettings.allowIpForwarding,
    forwardOnNode: call.forwardsOnNode,
    routers,
  };
}

function offloadOf({ groMaxSize, gsoMaxSize }: NetworkConfig, routers: readonly Address[] | undefined) {
  if (routers === undefined) return {};
  return { ...(groMaxSize > 0 ? { groMaxSize } : {}), ...(gsoMaxSize > 0 ? { gsoMaxSize } : {}) };
}

/**
 * Lists the two defaults unless routes are configured (C§2.3 S4); with `include_default_routes` the defaults come first. Host bits are
 * masked, as Calico does (net.ParseCIDR): the kernel refuses an IPv4 route that has them, and stores an IPv6 route without them.
 */
function routeDestinations(config: NetworkConfig, texts: readonly string[]): readonly Prefix[] {
  if (texts.length === 0) return DEFAULT_ROUTES;
  const custom = texts.flatMap((text) => parsePrefix(text) ?? []).map(maskPrefix);
  return config.includeDefaultRoutes ? [...DEFAULT_ROUTES, ...custom] : custom;
}

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

function sysctl(path: string, value: string): Sysctl {
  return { path, value, required: true };
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new TypeError(`"${text}" is not an address`);
  return address;
}
