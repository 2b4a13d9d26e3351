/**
 * Reads the section of `host-local` (C§2.3 S3, C§2.4): the routes that the pod is to get, and the keywords `usePodCidr` and
 * `usePodCidrIPv6`, which the node's pod CIDRs replace. All of it is pure, and no number of the configuration loses a digit (design §8).
 */

import { type Family, parsePrefix } from "../lib/addresses/address.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../lib/json/value.ts";

/** What the `ipam` section asks of the main plugin. */
export interface IpamSection {
  /** Destinations of the pod's routes. */
  readonly destinations: readonly string[];
  /** A keyword stands for a pod CIDR of the node. */
  readonly needsPodCidrs: boolean;
}

/**
 * @param hasCluster there is a Node object with the node's pod CIDRs
 * @throws TortieError `netconf-type`, `netconf-value`, `pod-cidr-missing`
 */
export function readIpamSection(request: Pick<CniRequest, "netconf">, hasCluster: boolean): IpamSection {
  const ipam = hostLocalSection(request.netconf);
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

/** Makes the plugin's standard input for every verb but ADD: the runtime's own bytes, unless a keyword stands in them. */
export function ipamStdinForDel(request: CniRequest): Uint8Array {
  const ipam = hostLocalSection(request.netconf);
  if (ipam === undefined || !usesPodCidr(ipam)) return request.stdin;
  return encode({ ...request.netconf, ipam: withoutPodCidrs(ipam) });
}

/** Returns the `ipam` section when the plugin is host-local. */
export function hostLocalSection({ ipam }: JsonObject): JsonObject | undefined {
  return isJsonObject(ipam) && ipam.type === "host-local" ? ipam : undefined;
}

export function encode(netconf: JsonObject): Uint8Array {
  return new TextEncoder().encode(stringifyJson(netconf));
}

/** Destinations of `ipam.routes`, in order; an entry without `dst` is skipped, `gw` is not looked at. */
function hostLocalDestinations(ipam: JsonObject): readonly string[] {
  const routes = ipam.routes ?? [];
  if (!Array.isArray(routes)) throw badShape("routes section; was expecting a list", routes);
  const destinations: string[] = [];
  for (const route of routes) {
    if (!isJsonObject(route)) throw badShape("routes section; was expecting a dict", route);
    const destination = route.dst;
    if (destination === undefined || destination === null) continue;
    if (typeof destination !== "string") {
      throw new TortieError(
        "netconf-type",
        `invalid IPAM routes section; expecting 'dst' to be a string, not: ${JSON.stringify(destination)}`,
      );
    }
    if (parsePrefix(destination) === undefined) {
      throw new TortieError("netconf-value", `invalid CIDR address: ${destination} (ipam.routes, key dst)`);
    }
    destinations.push(destination);
  }
  return destinations;
}

/**
 * Makes the `ipam` section for an ADD: replaces each keyword by the node's first pod CIDR of its family (C§2.4).
 *
 * @param node its name, for messages
 * @param podCIDRs `spec.podCIDRs` of that node
 * @throws TortieError `pod-cidr-missing` with Calico's texts; `netconf-type`
 */
export function withPodCidrs(ipam: JsonObject, node: string, podCIDRs: readonly string[]): JsonObject {
  const cidrs = podCidrsOf(node, podCIDRs);
  const replaced = (object: JsonObject): JsonObject => {
    const family = keywordFamily(object.subnet);
    return family === undefined ? object : { ...object, subnet: cidrOf(family, cidrs, node) };
  };
  const ranges = rangeSetsOf(ipam).map((set) => set.map(replaced));
  return { ...replaced(ipam), ...(ranges.length === 0 ? {} : { ranges }) };
}

/** Says whether a keyword stands anywhere in `ipam.subnet` or `ipam.ranges`. Wrong shapes are errors, on DEL as well (C§1.2). */
export function usesPodCidr(ipam: JsonObject): boolean {
  const ranges = rangeSetsOf(ipam).flat();
  return [ipam, ...ranges].some(({ subnet }) => keywordFamily(subnet) !== undefined);
}

/**
 * Makes the `ipam` section for a DEL, which needs no CIDRs: host-local releases by container id, and only checks that its ranges are sound.
 * Ranges given by keyword are dropped; Calico's substitute 0.0.0.0/0 overlaps with any other range and the address leaked (design §8).
 */
export function withoutPodCidrs(ipam: JsonObject): JsonObject {
  const rangeSets = rangeSetsOf(ipam)
    .map((set) => set.filter((range) => keywordFamily(range.subnet) === undefined))
    .filter((set) => set.length > 0);
  const { subnet, ranges, ...rest } = ipam;
  const others: JsonObject = rangeSets.length > 0 ? { ranges: rangeSets } : {};
  if (subnet !== undefined && keywordFamily(subnet) === undefined) return { ...rest, subnet, ...others };
  return { ...rest, ranges: [[{ subnet: "0.0.0.0/0" }]], ...others };
}

const KEYWORDS: Readonly<Record<Family, string>> = { 4: "usePodCidr", 6: "usePodCidrIPv6" };

/** Finds the first CIDR of each family. */
function podCidrsOf(node: string, podCIDRs: readonly string[]): ReadonlyMap<Family, string> {
  if (podCIDRs.length === 0) throw noPodCidr(`no podCidr for node ${node}`);
  const cidrs = new Map<Family, string>();
  for (const cidr of podCIDRs) {
    const family = parsePrefix(cidr)?.address.family;
    if (family === undefined) throw noPodCidr(`invalid CIDR address: ${cidr} (spec.podCIDRs of node ${node})`);
    if (!cidrs.has(family)) cidrs.set(family, cidr);
  }
  if (podCIDRs.length > 1 && cidrs.size === 1) {
    throw noPodCidr(`ClusterCIDR contains two ranges of the same type: node ${node} has ${podCIDRs.join(", ")}`);
  }
  return cidrs;
}

function cidrOf(family: Family, cidrs: ReadonlyMap<Family, string>, node: string): string {
  const cidr = cidrs.get(family);
  if (cidr !== undefined) return cidr;
  throw noPodCidr(
    `${KEYWORDS[family]} found but there is no IPv${family} CIDR configured: node ${node} has ${[...cidrs.values()].join(", ")}`,
  );
}

function noPodCidr(message: string): TortieError {
  return new TortieError("pod-cidr-missing", message, {
    next: "let the controller manager give the node a pod CIDR of that family, or give CIDRs in ipam.subnet and ipam.ranges",
  });
}

function keywordFamily(subnet: JsonValue | undefined): Family | undefined {
  if (typeof subnet !== "string") return undefined;
  const word = subnet.toLowerCase();
  if (word === KEYWORDS[4].toLowerCase()) return 4;
  return word === KEYWORDS[6].toLowerCase() ? 6 : undefined;
}

function rangeSetsOf(ipam: JsonObject): readonly (readonly JsonObject[])[] {
  const ranges = ipam.ranges ?? [];
  if (!Array.isArray(ranges)) throw badShape("ranges section; was expecting a list", ranges);
  return ranges.map((set) => {
    if (!Array.isArray(set)) throw badShape("range set; was expecting a list", set);
    return set.map((range) => {
      if (!isJsonObject(range)) throw badShape("data; was expecting a dict", range);
      return range;
    });
  });
}

function badShape(what: string, found: JsonValue): TortieError {
  const text = typeof found === "string" ? found : JSON.stringify(found);
  return new TortieError("netconf-type", `failed to parse host-local IPAM ${what}, not: ${text}`);
}
