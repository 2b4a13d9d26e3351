/**
 * Does what two other IPAM plugins need of the main plugin.
 *
 * For `host-local` (C§2.3 S3, C§2.4) it reads the routes that the pod is to get, and replaces the keywords `usePodCidr` and
 * `usePodCidrIPv6` by the node's pod CIDRs. That part is pure, and no number of the configuration loses a digit (design §8).
 *
 * For `azure-vnet-ipam`, which knows no containers, it remembers the network's subnet and the addresses of each attachment, in Calico's
 * files (C§2.5). The plugin's ADD is given the subnet that it gave before, its DEL the address to release.
 */

import { type Family, formatPrefix, maskPrefix, parsePrefix } from "../lib/addresses/address.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { field, isText, listOf, parseObject } from "../lib/json/decode.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../lib/json/value.ts";
import { isThere, makeDirectories, readText, removeFile } from "../lib/system/files.ts";
import { writeWhole } from "../lib/system/write-whole.ts";

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

export const AZURE_IPAM = "azure-vnet-ipam";

/** Where Calico's main plugin keeps them as well, so that either can delete what the other has added. */
const STATE = "/var/run/calico/azure/networks";

type Attachment = Pick<CniRequest, "network" | "containerId" | "interfaceName" | "netconf">;

/**
 * Makes the plugin's input for an ADD: the subnet of the network's first address, if there was one.
 * @throws TortieError `azure-state-invalid`
 */
export function azureNetconfForAdd({ netconf, network }: Attachment): JsonObject {
  const [subnet] = knownSubnets(network);
  return subnet === undefined ? netconf : withIpam(netconf, { subnet });
}

/**
 * Makes the plugin's inputs for a DEL, one for each address that the attachment has: it releases one address a call. Calico names the first
 * one only.
 *
 * @returns an empty list when nothing is known of the attachment: there is nothing to release
 * @throws TortieError `azure-state-invalid`
 */
export function azureNetconfsForDel(attachment: Attachment): readonly JsonObject[] {
  const file = endpointFile(attachment);
  if (!isThere(file)) return [];
  const [subnet] = knownSubnets(attachment.network);
  return read(file, "Addresses").map((address) =>
    withIpam(attachment.netconf, { ipAddress: address.replace(/\/.*$/, ""), ...(subnet === undefined ? {} : { subnet }) }),
  );
}

/**
 * Notes what an ADD of the plugin gave, before the result is used.
 *
 * @param addresses with their prefix length, as the plugin returned them
 */
export function rememberAzure(attachment: Attachment, addresses: readonly string[]): void {
  const { network, containerId, interfaceName } = attachment;
  makeDirectories(`${STATE}/${network}`, 0o700);
  const subnets = [...new Set(addresses.flatMap((address) => subnetOf(address) ?? []))];
  write(networkFile(network), { Name: network, Subnets: subnets });
  write(endpointFile(attachment), { Network: network, ContainerID: containerId, Interface: interfaceName, Addresses: addresses });
}

/** Forgets the addresses after the plugin has released them, and not before: until then a repeated DEL needs them. */
export function forgetAzure(attachment: Attachment): void {
  removeFile(endpointFile(attachment));
}

function subnetOf(address: string): string | undefined {
  const prefix = parsePrefix(address);
  return prefix === undefined ? undefined : formatPrefix(maskPrefix(prefix));
}

function knownSubnets(network: string): readonly string[] {
  const file = networkFile(network);
  return isThere(file) ? read(file, "Subnets") : [];
}

function networkFile(network: string): string {
  return `${STATE}/${network}/network.json`;
}

function endpointFile({ network, containerId, interfaceName }: Attachment): string {
  return `${STATE}/${network}/${containerId}-${interfaceName}`;
}

function read(file: string, list: string): readonly string[] {
  try {
    const stored = parseObject(readText(file));
    // Go writes an empty list as null.
    return stored[list] === null ? [] : field(stored, list, listOf(isText));
  } catch (error) {
    throw new TortieError("azure-state-invalid", `${file}: ${messageOf(error)}`);
  }
}

function write(file: string, content: Readonly<Record<string, unknown>>): void {
  writeWhole(file, JSON.stringify(content), 0o600);
}

function withIpam(netconf: JsonObject, members: JsonObject): JsonObject {
  return { ...netconf, ipam: { ...(isJsonObject(netconf.ipam) ? netconf.ipam : {}), ...members } };
}
