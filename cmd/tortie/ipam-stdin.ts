/**
 * What the IPAM plugin gets on standard input: the runtime's own bytes, unless something must be put in (C§2.3 S3). Edited or not, no
 * number loses a digit (design, corrections).
 */
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { TortieError } from "../../lib/errors.ts";
import { stringifyJson } from "../../lib/json/stringify.ts";
import { isJsonObject, type JsonObject } from "../../lib/json/value.ts";
import { hostLocalDestinations, usesPodCidr, withoutPodCidrs } from "./host-local.ts";

export interface IpamInput {
  readonly stdin: Uint8Array;
  /** Destinations of the pod's routes that the IPAM configuration asks for. */
  readonly destinations: readonly string[];
}

export function ipamStdinForAdd(request: CniRequest): IpamInput {
  const ipam = hostLocalSection(request);
  if (ipam === undefined) return { stdin: request.stdin, destinations: [] };
  if (usesPodCidr(ipam)) {
    throw new TortieError(
      "pod-cidr-missing",
      "ipam.subnet usePodCidr stands for the node's pod CIDR, which only a Kubernetes API server knows: the datastore of this network is local",
    );
  }
  return { stdin: request.stdin, destinations: hostLocalDestinations(ipam) };
}

/** For DEL, CHECK, STATUS and GC. */
export function ipamStdinForDel(request: CniRequest): Uint8Array {
  const ipam = hostLocalSection(request);
  if (ipam === undefined || !usesPodCidr(ipam)) return request.stdin;
  return encode({ ...request.netconf, ipam: withoutPodCidrs(ipam) });
}

/** The `ipam` section when the plugin is host-local. */
function hostLocalSection(request: CniRequest): JsonObject | undefined {
  const { ipam } = request.netconf;
  return isJsonObject(ipam) && ipam.type === "host-local" ? ipam : undefined;
}

export function encode(netconf: JsonObject): Uint8Array {
  return new TextEncoder().encode(stringifyJson(netconf));
}
