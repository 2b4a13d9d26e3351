/** Decides what an ADD will attach, before it has addresses. Pure. */

import type { AttachmentName } from "../dataplane/alias.ts";
import type { DesiredState } from "../dataplane/desired-state.ts";
import { type Address, maskPrefix, type Prefix, parseAddress, parsePrefix } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import type { AddCall } from "./call.ts";
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

export function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new TypeError(`"${text}" is not an address`);
  return address;
}
