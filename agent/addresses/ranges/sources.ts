/** Decides which source each family's range comes from (A§1.2). Pure: the flags, the node object and the host's address go in. */
import { familyOf, type NodeRecord, type RangeSource } from "../../../ipam-plugin/host-scope/node-record.ts";
import { type Address, bytesOf, type Family, formatPrefix, maskPrefix, type Prefix, parsePrefix } from "../../../lib/addresses/address.ts";
import { annotatedSource, ciliumRangeAnnotation, rangeAnnotation } from "./annotations.ts";
import type { NodeFacts } from "./node-object.ts";
import type { FamilyOptions, NodeCidrOptions } from "./options.ts";

export interface SourcedRange {
  readonly cidr: Prefix;
  readonly source: RangeSource;
}

/** The ranges of a node, one a family at most. */
export type Ranges = Readonly<Partial<Record<Family, SourcedRange>>>;

export interface SourceInput {
  readonly options: NodeCidrOptions;
  /** `undefined` outside Kubernetes, where every range may be automatic. */
  readonly node: NodeFacts | undefined;
  /** The host's own IPv4 address. */
  readonly hostAddress: Address | undefined;
  /** What this process has decided before: annotations do not change it, since it is the agent who writes them. */
  readonly decided?: Ranges;
}

export interface SourceDecision {
  readonly ranges: Ranges;
  /** What is wrong with a source that was passed over. */
  readonly warnings: readonly string[];
  /** Why there is no range for a family that must have one. */
  readonly missing: readonly string[];
}

export function decideRanges(input: SourceInput): SourceDecision {
  const { options, node } = input;
  const warnings: string[] = [];
  const missing: string[] = [];
  const fromSpec = node === undefined ? {} : specRanges(node, warnings);
  const ranges: Partial<Record<Family, SourcedRange>> = {};
  for (const familyOptions of options.families) {
    const { family, isRequired } = familyOptions;
    if (isRequired && fromSpec[family] === undefined) missing.push(`required IPv${family} pod CIDR not present in node resource`);
    const found = givenRange(familyOptions, fromSpec[family], input, warnings);
    if (found !== undefined) ranges[family] = found;
  }
  completeAutomatically(ranges, input);
  if (missing.length === 0 && Object.keys(ranges).length === 0) missing.push(nothingFound(input));
  return { ranges, warnings, missing };
}

function givenRange(
  { family, range }: FamilyOptions,
  spec: Prefix | undefined,
  { options, node, decided }: SourceInput,
  warnings: string[],
): SourcedRange | undefined {
  if (range.kind === "cidr") return { cidr: range.prefix, source: "flag" };
  if (spec !== undefined) return { cidr: spec, source: "spec" };
  const before = decided?.[family];
  if (before?.source === "annotation" || before?.source === "automatic") return before;
  if (node === undefined) return undefined;
  const names = [rangeAnnotation(family), ...(options.readsCiliumAnnotations ? [ciliumRangeAnnotation(family)] : [])];
  for (const name of names) {
    const cidr = annotatedRange(name, family, node, warnings);
    if (cidr !== undefined) return { cidr, source: "annotation" };
  }
  return undefined;
}

/**
 * Reads the ranges of the node's spec. If two CIDRs have the same family, the last one counts. More than two are ignored, and so is
 * `spec.podCIDR`.
 */
function specRanges({ podCIDRs, podCIDR }: NodeFacts, warnings: string[]): Readonly<Partial<Record<Family, Prefix>>> {
  if (podCIDRs.length > 2) {
    warnings.push(`Invalid PodCIDRs expected 1 or 2 PodCIDRs, received ${podCIDRs.length}`);
    return {};
  }
  const found: Partial<Record<Family, Prefix>> = {};
  const texts = podCIDRs.length > 0 ? podCIDRs : [podCIDR].filter((text) => text !== "");
  for (const text of texts) {
    const prefix = parsePrefix(text);
    if (prefix === undefined) warnings.push(`Invalid PodCIDR value for node: ${JSON.stringify(text)}`);
    else found[prefix.address.family] = maskPrefix(prefix);
  }
  return found;
}

/** Passes over what an agent had made up itself: no operator asked for it. */
function annotatedRange(name: string, family: Family, { annotations }: NodeFacts, warnings: string[]): Prefix | undefined {
  const text = annotations[name] ?? "";
  if (text === "" || (name === rangeAnnotation(family) && annotatedSource(annotations, family) === "automatic")) return undefined;
  const prefix = parsePrefix(text);
  if (prefix?.address.family === family) return maskPrefix(prefix);
  warnings.push(`invalid IPv${family} annotation CIDR in node: ${name} is ${JSON.stringify(text)}`);
  return undefined;
}

/** Adds automatic ranges, on Kubernetes only if `auto-host` asks for them: two nodes whose addresses end alike would get the same range. */
function completeAutomatically(ranges: Partial<Record<Family, SourcedRange>>, { options, node, hostAddress }: SourceInput): void {
  const wants = (family: Family) => {
    const known = options.families.find((one) => one.family === family);
    return (
      known !== undefined && !known.isRequired && ranges[family] === undefined && (node === undefined || known.range.kind === "auto-host")
    );
  };
  if (wants(4)) {
    const cidr = automaticIpv4(hostAddress, ranges[6]?.cidr);
    if (cidr !== undefined) ranges[4] = { cidr, source: "automatic" };
  }
  const ipv4 = ranges[4];
  if (wants(6) && ipv4 !== undefined) ranges[6] = { cidr: automaticIpv6(ipv4.cidr, options.clusterPrefix), source: "automatic" };
}

function nothingFound({ node }: SourceInput): string {
  if (node === undefined) return "the host has no address to make a range of: give --ipv4-range or --ipv6-range";
  return `node ${node.name} has no pod CIDR: neither spec.podCIDRs, nor the annotation ${rangeAnnotation(4)}, nor --ipv4-range`;
}

/** Describes a range for the log: "10.0.0.0/24 (spec)". */
export function describeRange({ cidr, source }: SourcedRange): string {
  return `${formatPrefix(cidr)} (${source})`;
}

/** Makes 10.<x>.0.0/16 (A§1.4): x is the last octet of the host's address, or octet 11 of an IPv6 range that the node was given. */
function automaticIpv4(hostAddress: Address | undefined, givenIpv6: Prefix | undefined): Prefix | undefined {
  const octet = givenIpv6 === undefined ? hostAddress && bytesOf(hostAddress).at(-1) : bytesOf(givenIpv6.address)[11];
  if (octet === undefined) return undefined;
  return { address: { family: 4, value: (10n << 24n) | (BigInt(octet) << 16n) }, length: 16 };
}

/** Makes a /96 below the cluster's /64: the four octets of the IPv4 range follow the prefix. */
function automaticIpv6(ipv4: Prefix, clusterPrefix: Prefix): Prefix {
  return { address: { family: 6, value: clusterPrefix.address.value | (ipv4.address.value << 32n) }, length: 96 };
}

/** Lists the ranges, IPv4 first. */
export function entries(ranges: Ranges): readonly (readonly [Family, SourcedRange])[] {
  return ([4, 6] as const).flatMap((family) => {
    const range = ranges[family];
    return range === undefined ? [] : [[family, range] as const];
  });
}

export function isSame(one: Ranges, other: Ranges): boolean {
  const text = (ranges: Ranges) =>
    entries(ranges)
      .map(([family, range]) => `${family} ${describeRange(range)}`)
      .join();
  return text(one) === text(other);
}

/** Says whether addresses are given of the automatic ones among `ranges`, by the record of this boot. */
export function hasAutomatic(record: NodeRecord | undefined, ranges: Ranges): boolean {
  if (record === undefined) return false;
  return entries(ranges).every(([family, { cidr, source }]) => {
    const known = familyOf(record, family);
    return source !== "automatic" || (known?.source === source && formatPrefix(known.cidr) === formatPrefix(cidr));
  });
}
