/** Nodes, blocks and pools of the stores as routes need them: little of each, since an agent keeps those of the whole cluster. */
import { addressAt, bitsOf, type Family, maskPrefix, type Prefix, parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { decodeNode } from "../../lib/datastore/kubernetes/core/decode-objects.ts";
import type { Block, IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, field, has, isText, listOf, objects, section, text, texts } from "../../lib/json/decode.ts";
import { type ByFamily, FAMILIES, type Mode, type RoutedBlock, type RoutedNode, type RoutedPool, type TunnelEnd } from "./model.ts";
import { NODE_ANNOTATIONS } from "./own-node.ts";

const MAC = /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/;
const RANGE: Readonly<Record<Family, string>> = {
  4: "network.tortie.dev/ipv4-pod-cidr",
  6: "network.tortie.dev/ipv6-pod-cidr",
};

/** A Node object of Kubernetes. What an annotation says amiss counts as not said. @throws Error naming the field */
export function decodeRoutedNode(object: Fields): RoutedNode {
  const metadata = section(object, "metadata");
  const annotations = texts(metadata, "annotations");
  const internal = objects(section(object, "status"), "addresses")
    .filter((one) => text(one, "type") === "InternalIP")
    .flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return {
    name: text(metadata, "name"),
    recorded: byFamily((family) => ofFamily(prefixOrAddress(annotations[NODE_ANNOTATIONS.address[family]] ?? ""), family)),
    internal: byFamily((family) => internal.find((address) => address.family === family)),
    tunnels: byFamily((family) => tunnelEnd(annotations, family)),
    labels: decodeNode(object).labels,
    ranges: rangesOf(section(object, "spec"), annotations),
  };
}

function tunnelEnd(annotations: Readonly<Record<string, string>>, family: Family): TunnelEnd | undefined {
  const address = parseAddress(annotations[NODE_ANNOTATIONS.tunnelAddress[family]] ?? "");
  if (address?.family !== family) return undefined;
  const mac = annotations[NODE_ANNOTATIONS.tunnelMac[family]]?.toLowerCase() ?? "";
  return MAC.test(mac) ? { address, mac } : { address };
}

/** What the node's own agent says; where there is none, what the cluster has given the node. */
function rangesOf(spec: Fields, annotations: Readonly<Record<string, string>>): readonly Prefix[] {
  const given = (has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : []).flatMap((one) => parsePrefix(one) ?? []);
  return FAMILIES.flatMap((family) => {
    const range = ofFamily(parsePrefix(annotations[RANGE[family]] ?? ""), family) ?? given.find(({ address }) => address.family === family);
    return range === undefined ? [] : [maskPrefix(range)];
  });
}

/** A block whose CIDR cannot be read is none. @throws DatastoreError `invalid` */
export function routedBlock({ cidr: text, affinity, allocations, attributes }: Block): RoutedBlock | undefined {
  const cidr = parsePrefix(text);
  if (cidr === undefined) return undefined;
  // Addresses of Services belong to no node (I§0).
  const owner = affinity?.type === "host" ? affinity.name : undefined;
  const borrowed = allocations.flatMap((index, ordinal) => {
    const node = index === null ? undefined : attributes[index]?.activeOwner?.node;
    return node === undefined || node === owner ? [] : [{ address: addressAt(cidr, ordinal), node }];
  });
  return { cidr, ...(owner === undefined ? {} : { owner }), borrowed };
}

/** A pool whose CIDR cannot be read is none. @param spec of the stored object, for what addresses do not depend on */
export function routedPool(pool: IPPool, spec: Fields): RoutedPool | undefined {
  const cidr = parsePrefix(pool.cidr);
  if (cidr === undefined) return undefined;
  return {
    name: pool.name,
    cidr,
    vxlanMode: modeOf(text(spec, "vxlanMode")),
    ipipMode: modeOf(text(spec, "ipipMode")),
    natOutgoing: pool.natOutgoing,
    servesTunnels: !pool.disabled && !pool.deleting && pool.allowedUses.includes("Tunnel"),
    nodeSelector: pool.nodeSelector,
  };
}

function modeOf(word: string): Mode {
  return word === "Always" || word === "CrossSubnet" ? word : "Never";
}

function prefixOrAddress(text: string): Prefix | undefined {
  const address = parseAddress(text);
  return address === undefined ? parsePrefix(text) : { address, length: bitsOf(address.family) };
}

function ofFamily(prefix: Prefix | undefined, family: Family): Prefix | undefined {
  return prefix?.address.family === family ? prefix : undefined;
}

function byFamily<T>(find: (family: Family) => T | undefined): ByFamily<T> {
  const found: Partial<Record<Family, T>> = {};
  for (const family of FAMILIES) {
    const value = find(family);
    if (value !== undefined) found[family] = value;
  }
  return found;
}
