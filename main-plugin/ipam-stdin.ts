/**
 * What the IPAM plugin gets on standard input: the runtime's own bytes, unless something must be put in (C§2.3 S3 and S6, C§2.5). Edited
 * or not, no number loses a digit (design, corrections).
 */
import type { CniRequest } from "../lib/cni/protocol.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { stringifyJson } from "../lib/json/stringify.ts";
import { isJsonObject, type JsonObject } from "../lib/json/value.ts";
import { hostLocalDestinations, usesPodCidr, withoutPodCidrs } from "./host-local.ts";

/** What the `ipam` section asks of the main plugin. */
export interface IpamSection {
  /** Destinations of the pod's routes. */
  readonly destinations: readonly string[];
  /** A keyword stands for a pod CIDR of the node. */
  readonly needsPodCidrs: boolean;
}

/**
 * @param hasCluster somebody knows the node's pod CIDRs
 * @throws TortieError `netconf-type`, `netconf-value`, `pod-cidr-missing`
 */
export function readIpamSection(request: Pick<CniRequest, "netconf">, hasCluster: boolean): IpamSection {
  const ipam = hostLocalSection(request);
  if (ipam === undefined) return { destinations: [], needsPodCidrs: false };
  const needsPodCidrs = usesPodCidr(ipam);
  if (needsPodCidrs && !hasCluster) {
    throw new TortieError(
      "pod-cidr-missing",
      "ipam.subnet usePodCidr stands for the node's pod CIDR, which only a Kubernetes API server knows: the datastore of this network is local",
    );
  }
  return { needsPodCidrs, destinations: hostLocalDestinations(ipam) };
}

/** For DEL, CHECK, STATUS and GC. */
export function ipamStdinForDel(request: CniRequest): Uint8Array {
  const ipam = hostLocalSection(request);
  if (ipam === undefined || !usesPodCidr(ipam)) return request.stdin;
  return encode({ ...request.netconf, ipam: withoutPodCidrs(ipam) });
}

/** The `ipam` section when the plugin is host-local. */
export function hostLocalSection({ netconf }: Pick<CniRequest, "netconf">): JsonObject | undefined {
  const { ipam } = netconf;
  return isJsonObject(ipam) && ipam.type === "host-local" ? ipam : undefined;
}

export function encode(netconf: JsonObject): Uint8Array {
  return new TextEncoder().encode(stringifyJson(netconf));
}
