/** Nodes, blocks and pools of the stores as routes need them: little of each, since an agent keeps those of the whole cluster. */
import {
  type Address,
  addressAt,
  bitsOf,
  type Family,
  maskPrefix,
  type Prefix,
  parseAddress,
  parsePrefix,
} from "../../lib/addresses/address.ts";
import { Claimed } from "../../lib/claims/claimed.ts";
import type { Block, IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, field, has, isText, listOf, objects, section, text, texts } from "../../lib/json/decode.ts";
import { decodeNode } from "../../lib/kubernetes/objects.ts";
import { rangeAnnotation } from "../node-cidr/annotations.ts";
import { type ByFamily, FAMILIES, type Mode, type RoutedBlock, type RoutedNode, type RoutedPool, type TunnelEnd } from "./model.ts";
import { NODE_ANNOTATIONS } from "./own-node.ts";
import { VXLAN } from "./vxlan-facts.ts";

const MAC = /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/;

/** A Node object of Kubernetes. What an annotation says amiss counts as not said. @throws Error naming the field */
export function decodeRoutedNode(object: Fields): RoutedNode {
  const metadata = section(object, "metadata");
  const annotations = texts(metadata, "annotations");
  const internal = objects(section(object, "status"), "addresses")
    .filter((one) => text(one, "type") === "InternalIP")
    .flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return {
    name: text(metadata, "name"),
    createdAt: text(metadata, "creationTimestamp"),
    recorded: byFamily((family) => ofFamily(prefixOrAddress(annotations[NODE_ANNOTATIONS.address[family]] ?? ""), family)),
    internal: byFamily((family) => internal.find((address) => address.family === family)),
    labels: decodeNode(object).labels,
    given: givenRanges(section(object, "spec")),
    claims: {
      tunnels: byFamily((family) => claimed(tunnelEnd(annotations, family))),
      ranges: byFamily((family) => claimed(annotatedRange(annotations, family))),
    },
  };
}

function tunnelEnd(annotations: Readonly<Record<string, string>>, family: Family): TunnelEnd | undefined {
  const address = parseAddress(annotations[NODE_ANNOTATIONS.tunnelAddress[family]] ?? "");
  if (address?.family !== family) return undefined;
  const mac = annotations[NODE_ANNOTATIONS.tunnelMac[family]]?.toLowerCase() ?? "";
  return MAC.test(mac) ? { address, mac } : { address };
}

function givenRanges(spec: Fields): readonly Prefix[] {
  const texts = has(spec, "podCIDRs") ? field(spec, "podCIDRs", listOf(isText)) : [];
  return texts.flatMap((one) => parsePrefix(one) ?? []).map(maskPrefix);
}

function annotatedRange(annotations: Readonly<Record<string, string>>, family: Family): Prefix | undefined {
  const range = ofFamily(parsePrefix(annotations[rangeAnnotation(family)] ?? ""), family);
  return range && maskPrefix(range);
}

function claimed<T>(value: T | undefined): Claimed<T> | undefined {
  return value === undefined ? undefined : new Claimed(value);
}

/** A block whose CIDR cannot be read is none. @throws DatastoreError `invalid` */
export function routedBlock({ cidr: text, affinity, allocations, attributes }: Block): RoutedBlock | undefined {
  const cidr = parsePrefix(text);
  if (cidr === undefined) return undefined;
  // Addresses of Services belong to no node (I§0).
  const owner = affinity?.type === "host" ? affinity.name : undefined;
  const borrowed: { readonly address: Address; readonly node: string }[] = [];
  const tunnelEnds: { readonly address: Address; readonly node: string }[] = [];
  const tunnelType = VXLAN[cidr.address.family].attributeType;
  for (const [ordinal, index] of allocations.entries()) {
    const user = index === null ? undefined : attributes[index]?.activeOwner;
    if (user?.node === undefined) continue;
    const used = { address: addressAt(cidr, ordinal), node: user.node };
    if (user.node !== owner) borrowed.push(used);
    if (user.type === tunnelType) tunnelEnds.push(used);
  }
  return { cidr, ...(owner === undefined ? {} : { owner }), borrowed, tunnelEnds };
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
