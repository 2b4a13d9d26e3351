/**
 * The two pure decisions of an ADD: what will be attached (`planAttachment`), and, once addresses are known, everything the kernel
 * must hold for it (`desiredStateOf`). Values and order are those of C§4.1-4.5.
 */
import type { DesiredState, Route, Sysctl } from "../dataplane/desired-state.ts";
import { type Family, formatPrefix, hostPrefix, type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { WorkloadIdentity } from "../lib/workload/identity.ts";

/** MAC of every host end (C§4.1). */
export const HOST_MAC = "ee:ee:ee:ee:ee:ee";
/** EUI-64 link-local address that belongs to HOST_MAC (RFC 4291 appendix A): the pod's IPv6 next hop. */
const HOST_LINK_LOCAL = "fe80::ecee:eeff:feee:eeee";
/**
 * The pod's IPv4 next hop: on no interface, answered by proxy ARP (C§4.1). The kernel answers only where it has a route to that address
 * through another interface (net/ipv4/arp.c, arp_fwd_proxy), and a laptop without a default route has none; so on a node without
 * Felix the pod is told the answer in advance.
 */
const IPV4_GATEWAY = "169.254.1.1";

const DEFAULT_ROUTES = ["0.0.0.0/0", "::/0"] as const;

/** What is known before addresses are. */
export interface AttachmentPlan {
  readonly sandbox: string;
  readonly hostInterface: string;
  readonly podInterface: string;
  readonly alias: string;
  readonly replaces: DesiredState["host"]["replaces"];
  readonly device: DesiredState["device"];
  readonly mac: string | undefined;
  /** Destinations of the pod's routes, both families mixed. */
  readonly destinations: readonly string[];
  readonly allowIpForwarding: boolean;
  /** No Felix runs beside us: the node itself must forward. */
  readonly forwardOnNode: boolean;
}

/** Facts that the plan is made of. */
export interface PlanInput {
  readonly identity: Pick<WorkloadIdentity, "orchestrator">;
  readonly sandbox: string;
  readonly hostInterface: string;
  readonly podInterface: string;
  readonly alias: string;
  readonly mtu: number;
  readonly mac: string | undefined;
  /** Destinations that host-local's configuration asks for; empty for every other IPAM plugin (C§2.3 S3). */
  readonly customDestinations: readonly string[];
  readonly forwardOnNode: boolean;
}

export function planAttachment(config: NetworkConfig, input: PlanInput): AttachmentPlan {
  return {
    sandbox: input.sandbox,
    hostInterface: input.hostInterface,
    podInterface: input.podInterface,
    alias: input.alias,
    // A pod's name is all that its link's name is made of; of a container id only the beginning is (C§4.1).
    replaces: input.identity.orchestrator === "k8s" ? "any" : "unowned",
    device: { kind: config.deviceType === "netkit" ? "netkit" : "veth", mtu: Math.max(0, input.mtu), queues: config.numQueues },
    mac: input.mac,
    destinations: routeDestinations(config, input.customDestinations),
    allowIpForwarding: config.containerSettings.allowIpForwarding,
    forwardOnNode: input.forwardOnNode,
  };
}

/** C§2.3 S4: the two defaults unless routes are configured; with `include_default_routes` the defaults come first. */
function routeDestinations(config: NetworkConfig, custom: readonly string[]): readonly string[] {
  if (custom.length === 0) return DEFAULT_ROUTES;
  return config.includeDefaultRoutes ? [...DEFAULT_ROUTES, ...custom] : custom;
}

/** Pod addresses are always single hosts, whatever mask the IPAM plugin returned (C§4.1). */
export function narrowAddress(text: string): Prefix {
  const prefix = parsePrefix(text);
  if (prefix === undefined) {
    throw new TortieError("result-invalid", `the IPAM plugin returned the address "${text}", which is not an address with a prefix length`);
  }
  return hostPrefix(prefix.address);
}

/**
 * @param addresses in the order of the result, single hosts
 * @param hostRoutes false only for the target of a live migration (C§2.3 S9)
 */
export function desiredStateOf(plan: AttachmentPlan, addresses: readonly Prefix[], hostRoutes = true): DesiredState {
  return stateOf(plan, new Set(addresses.map((prefix) => prefix.address.family)), addresses, hostRoutes);
}

/** All but the addresses and the routes of the host, for an attachment that will have an address of each of these families. */
export function expectedStateOf(plan: AttachmentPlan, families: ReadonlySet<Family>): DesiredState {
  return stateOf(plan, families, [], false);
}

function stateOf(plan: AttachmentPlan, families: ReadonlySet<Family>, addresses: readonly Prefix[], hostRoutes: boolean): DesiredState {
  return {
    sandbox: plan.sandbox,
    device: plan.device,
    host: {
      name: plan.hostInterface,
      mac: HOST_MAC,
      alias: plan.alias,
      replaces: plan.replaces,
      sysctls: hostSysctls(plan.hostInterface, families),
      addresses: families.has(6) ? [`${HOST_LINK_LOCAL}/64`] : [],
      routes: hostRoutes ? addresses.map((prefix) => ({ destination: formatPrefix(prefix), scope: "link" })) : [],
    },
    pod: {
      name: plan.podInterface,
      ...(plan.mac === undefined ? {} : { mac: plan.mac }),
      sysctlsBeforeUp: families.has(6) ? [sysctl(`net/ipv6/conf/${plan.podInterface}/accept_dad`, "0")] : [],
      sysctls: podSysctls(plan, families),
      addresses: addresses.map(formatPrefix),
      routes: podRoutes(plan.destinations, families),
      neighbours: plan.forwardOnNode && families.has(4) ? [{ address: IPV4_GATEWAY, mac: HOST_MAC }] : [],
    },
    node: plan.forwardOnNode ? nodeSysctls(families) : [],
  };
}

/** C§4.3, in its order. */
function hostSysctls(name: string, families: ReadonlySet<Family>): Sysctl[] {
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

/** C§4.2 steps 13 and 17. */
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

/** C§4.2 steps 11, 12 and 15. */
function podRoutes(destinations: readonly string[], families: ReadonlySet<Family>): Route[] {
  const ofFamily = (family: Family) => destinations.filter((text) => parsePrefix(text)?.address.family === family);
  const routes: Route[] = [];
  if (families.has(4)) {
    routes.push({ destination: `${IPV4_GATEWAY}/32`, scope: "link" });
    routes.push(...ofFamily(4).map((destination): Route => ({ destination, gateway: IPV4_GATEWAY, scope: "universe" })));
  }
  if (families.has(6)) {
    routes.push(...ofFamily(6).map((destination): Route => ({ destination, gateway: HOST_LINK_LOCAL, scope: "universe" })));
  }
  return routes;
}

/** What the reference `ptp` plugin switches on as well. */
function nodeSysctls(families: ReadonlySet<Family>): Sysctl[] {
  const sysctls: Sysctl[] = [];
  if (families.has(4)) sysctls.push(sysctl("net/ipv4/ip_forward", "1"));
  if (families.has(6)) sysctls.push(sysctl("net/ipv6/conf/all/forwarding", "1"));
  return sysctls;
}

function sysctl(path: string, value: string): Sysctl {
  return { path, value, required: true };
}
