/**
 * Plans what the kernel must hold for a link of form `endpoint` (A§3.3 to A§3.7): the container's gateway is the router address of this
 * node. Each host end has that address, so that the kernel itself answers ARP and neighbour solicitations for it.
 */
import type { DesiredState, Route, Sysctl } from "../dataplane/desired-state.ts";
import { type Address, bitsOf, type Family, formatAddress, formatPrefix, hostPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { CniResult } from "../lib/cni/protocol.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { endpointMac } from "../lib/workload/names.ts";
import type { AddCall } from "./call.ts";
import type { Host } from "./host.ts";
import type { AttachmentPlan } from "./plan.ts";

/** Finds the gateways of the call's link; `undefined` for a link of form `routed`. @throws TortieError `node-cidr-missing` */
export async function routersFor(
  { config }: Pick<AddCall, "config">,
  host: Pick<Host, "routers">,
): Promise<readonly Address[] | undefined> {
  return config.linkForm === "endpoint" ? host.routers() : undefined;
}

/** @throws TortieError `node-cidr-missing` when a family has an address and no router */
export function endpointState(
  plan: AttachmentPlan,
  routers: readonly Address[],
  addresses: readonly Prefix[],
  hostRoutes: boolean,
): DesiredState {
  const used = addresses.map(({ address }) => routerOf(routers, address.family));
  const families = new Set(addresses.map(({ address }) => address.family));
  const gateways = routers.filter((router) => used.includes(router));
  const { owner, podInterface } = plan;
  return {
    device: plan.device,
    host: {
      name: plan.hostInterface,
      mac: endpointMac(owner.containerId, owner.ifname, "host"),
      owner,
      predecessors: plan.predecessors,
      sysctls: hostSysctls(plan.hostInterface, families),
      addresses: gateways.map(hostPrefix),
      routes: hostRoutes ? addresses.map((destination) => ({ destination, scope: "link" })) : [],
    },
    pod: {
      name: podInterface,
      mac: plan.mac ?? endpointMac(owner.containerId, owner.ifname, "pod"),
      sysctlsBeforeUp: families.has(6) ? [sysctl(`net/ipv6/conf/${podInterface}/accept_dad`, "0")] : [],
      sysctls: families.has(6) ? [sysctl("net/ipv6/conf/all/disable_ipv6", "0")] : [],
      addresses,
      routes: gateways.flatMap((gateway) => podRoutes(gateway, plan)),
      neighbours: [],
    },
  };
}

/**
 * Lists addresses and routes of the result: IPv6 first, each address with its gateway; the container's routes without their MTU (A§3.6).
 */
export function endpointResult({ pod }: DesiredState): Pick<CniResult, "ips" | "routes"> {
  const gatewayOf = (family: Family) => pod.routes.find(({ gateway }) => gateway?.family === family)?.gateway;
  const ips = pod.addresses.map((prefix) => {
    const gateway = gatewayOf(prefix.address.family);
    return { address: formatPrefix(prefix), gateway: gateway && formatAddress(gateway), interface: 1 };
  });
  const routes = pod.routes.map(({ destination, gateway }) => ({
    dst: formatPrefix(destination),
    gw: gateway && formatAddress(gateway),
  }));
  return { ips: ips.sort((one, other) => Number(other.address.includes(":")) - Number(one.address.includes(":"))), routes };
}

function routerOf(routers: readonly Address[], family: Family): Address {
  const router = routers.find((one) => one.family === family);
  if (router === undefined)
    throw new TortieError("node-cidr-missing", `this node has no IPv${family} router address, and the container an IPv${family} address`);
  return router;
}

/** Lists the way to the router first, or the kernel takes no route through it; then the others, the most specific first. */
function podRoutes(router: Address, { destinations, device }: AttachmentPlan): Route[] {
  const through = destinations
    .filter(({ address }) => address.family === router.family)
    .sort((one, other) => other.length - one.length)
    .map(
      (destination): Route => ({
        destination,
        gateway: router,
        scope: "universe",
        ...(device.mtu > 0 ? { mtu: device.mtu } : {}),
      }),
    );
  return [{ destination: { address: router, length: bitsOf(router.family) }, scope: "link" }, ...through];
}

/**
 * Switches reverse path filtering off: packets of the container may come back another way (A§3.3). The larger of this and `all` counts, and
 * `all` is the administrator's.
 */
function hostSysctls(name: string, families: ReadonlySet<Family>): Sysctl[] {
  return [
    sysctl(`net/ipv4/conf/${name}/rp_filter`, "0"),
    ...(families.has(4) ? [sysctl(`net/ipv4/conf/${name}/forwarding`, "1")] : []),
    ...(families.has(6)
      ? [
          sysctl(`net/ipv6/conf/${name}/accept_dad`, "0"),
          sysctl(`net/ipv6/conf/${name}/disable_ipv6`, "0"),
          sysctl(`net/ipv6/conf/${name}/forwarding`, "1"),
        ]
      : []),
    { path: `net/ipv6/conf/${name}/accept_ra`, value: "0", required: false },
  ];
}

export function sysctl(path: string, value: string): Sysctl {
  return { path, value, required: true };
}
