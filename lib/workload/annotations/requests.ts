/**
 * Reads what a pod asks for, in one place. The first source that says anything counts, alone, nothing is merged:
 *
 *   pools and families    pod annotation, namespace annotation, the netconf's `ipam` section, all enabled pools (C§3.2)
 *   addresses             pod annotation, then what the runtime asks for: `runtimeConfig.ips`, `IP=` of CNI_ARGS
 *   MAC                   pod annotation, then what the runtime asks for: `runtimeConfig.mac`, `MAC=` of CNI_ARGS
 *   floating IPs, source prefixes   pod annotation only
 *
 * Annotations are inert unless `policy.type` is `k8s` (C§2.3 S5). An ADD reads them before it takes an address, so that a bad one
 * leaves nothing behind; DEL never reads them (design §8). What they change in the configuration that the IPAM plugin gets (C§2.3 S6) is
 * said as JSON and decoded, alike.
 */
import { type Address, type Family, formatPrefix, maskPrefix, parseAddress, parsePrefix } from "../../addresses/address.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import { isCalicoIpam } from "../../config/ipam-section.ts";
import { isJsonObject, type JsonObject, type JsonValue, memberOf, withMember } from "../../json/value.ts";
import { isAssignableMac, type MacAddress, parseMac, type Requested, UNASSIGNABLE_MAC } from "../requested.ts";
import {
  type AnnotatedNamespace,
  type AnnotatedPod,
  type Annotation,
  annotationInvalid,
  featureDisabled,
  inheritedAnnotation,
  notJson,
  podAnnotation,
  podAnnotationIfAny,
  shortened,
  stringsOf,
} from "./annotation.ts";
import { annotatedFloatingIps } from "./pod-addresses.ts";

export interface PodRequests {
  /** What the annotations alone say: `undefined` leaves the netconf as it is. */
  readonly pools: AnnotatedPools;
  /** What the annotations alone say: `undefined` leaves the netconf as it is. */
  readonly families: Families | undefined;
  readonly addresses: AnnotatedAddresses;
  /** What all sources say; `undefined` leaves the choice to the kernel. */
  readonly mac: MacAddress | undefined;
  /** See `floatingNats`. */
  readonly floatingIps: readonly Address[];
  /** Canonical CIDRs. */
  readonly allowedSourcePrefixes: readonly string[];
}

type Configuration = Pick<NetworkConfig, "policy" | "ipam" | "featureControl">;

/**
 * @param namespace the pod's; only pools and families are read from it
 * @throws TortieError `annotation-invalid`, `feature-disabled`
 */
export function podRequests(
  pod: AnnotatedPod,
  namespace: AnnotatedNamespace | undefined,
  config: Configuration,
  requested: Requested,
): PodRequests {
  if (config.policy.type !== "k8s") return withoutAnnotations(requested);
  // Other IPAM plugins know neither pools nor families by these names (recording pools-hostlocal).
  const choosesPools = isCalicoIpam(config.ipam.type);
  const families = choosesPools ? annotatedFamilies(pod, namespace) : undefined;
  const addresses = annotatedAddresses(pod, config);
  return {
    pools: choosesPools ? annotatedPools(pod, namespace) : NO_POOLS,
    families,
    addresses,
    mac: annotatedMac(pod) ?? requested.mac,
    floatingIps: annotatedFloatingIps(pod, config, expectedFamilies(addresses, families, config, requested)),
    allowedSourcePrefixes: annotatedSourcePrefixes(pod),
  };
}

/** Finds the families that the pod will have, as far as that is certain before the IPAM plugin has answered. */
function expectedFamilies(
  addresses: AnnotatedAddresses,
  families: Families | undefined,
  config: Configuration,
  requested: Requested,
): ReadonlySet<Family> | undefined {
  if (!isCalicoIpam(config.ipam.type)) return undefined;
  const named = addresses.kind === "ipam" ? requested.addresses : addresses.addresses;
  if (named.length > 0) return new Set(named.map(({ family }) => family));
  const { ipv4, ipv6 } = families ?? { ipv4: config.ipam.assignIpv4, ipv6: config.ipam.assignIpv6 };
  return new Set<Family>([...(ipv4 ? [4 as const] : []), ...(ipv6 ? [6 as const] : [])]);
}

/**
 * Present but empty is an error (recording hwaddr-empty), and so are eight octets (lib/workload/requested.ts says why).
 *
 * @returns canonical text
 * @throws TortieError `annotation-invalid`
 */
export function annotatedMac(pod: AnnotatedPod): MacAddress | undefined {
  const annotation = podAnnotation(pod, "hwAddr");
  if (annotation === undefined) return undefined;
  const parsed = parseMac(annotation.value);
  const { key, value } = annotation;
  if ("mac" in parsed) {
    if (isAssignableMac(parsed.mac)) return parsed.mac;
    throw annotationInvalid(annotation, `MAC address ${value} provided via ${key}: ${UNASSIGNABLE_MAC}`);
  }
  const reason = value === "" ? parsed.reason : `address ${value}: ${parsed.reason}`;
  throw annotationInvalid(annotation, `failed to parse MAC address ${value} provided via ${key}: ${reason}`);
}

const NO_POOLS: AnnotatedPools = { ipv4: undefined, ipv6: undefined };

export function withoutAnnotations({ mac }: Pick<Requested, "mac">): PodRequests {
  return {
    pools: NO_POOLS,
    families: undefined,
    addresses: { kind: "ipam" },
    mac,
    floatingIps: [],
    allowedSourcePrefixes: [],
  };
}

/** Names or CIDRs. `undefined`: no annotation; empty: any pool will do (recording pools-empty-list). */
interface AnnotatedPools {
  readonly ipv4: readonly string[] | undefined;
  readonly ipv6: readonly string[] | undefined;
}

/** `ipv4pools`, `ipv6pools` and `ipFamilies`: of the pod, or else of its namespace, each key for itself, nothing merged (C§3.2). */
interface Families {
  readonly ipv4: boolean;
  readonly ipv6: boolean;
}

/** Whether the pools exist and are of the right family is the IPAM plugin's to say. @throws TortieError `annotation-invalid` */
export function annotatedPools(pod: AnnotatedPod, namespace: AnnotatedNamespace | undefined): AnnotatedPools {
  const poolsOf = (name: string) => {
    const annotation = inheritedAnnotation(pod, namespace, name);
    return annotation === undefined ? undefined : stringsOf(annotation);
  };
  return { ipv4: poolsOf("ipv4pools"), ipv6: poolsOf("ipv6pools") };
}

/**
 * A family that is not listed is switched off, so that the empty list leaves none (recording ipfamilies-empty).
 * @throws TortieError `annotation-invalid`; the words count in exactly this case (recording ipfamilies-bogus)
 */
export function annotatedFamilies(pod: AnnotatedPod, namespace: AnnotatedNamespace | undefined): Families | undefined {
  const annotation = inheritedAnnotation(pod, namespace, "ipFamilies");
  if (annotation === undefined) return undefined;
  const problem = `error parsing ipFamilies: ${shortened(annotation.value)}`;
  const families = stringsOf(annotation, (reason) => `${reason}: ${problem}`);
  if (!families.every((family) => family === "IPv4" || family === "IPv6")) throw annotationInvalid(annotation, problem);
  return { ipv4: families.includes("IPv4"), ipv6: families.includes("IPv6") };
}

/**
 * Where the addresses come from: what the IPAM plugin chooses, or is asked for by `runtimeConfig.ips` or CNI_ARGS; or the pod's own
 * list in the pod's own order, at most one of each family, taken through the IPAM plugin ("requested") or past it ("without-ipam").
 */
type AnnotatedAddresses =
  | { readonly kind: "ipam" }
  | { readonly kind: "requested" | "without-ipam"; readonly addresses: readonly Address[] };

/** Reads `ipAddrs` and `ipAddrsNoIpam` (C§2.5). @throws TortieError `annotation-invalid`, `feature-disabled` */
export function annotatedAddresses(pod: AnnotatedPod, config: Pick<NetworkConfig, "ipam" | "featureControl">): AnnotatedAddresses {
  const requested = podAnnotationIfAny(pod, "ipAddrs");
  const withoutIpam = podAnnotationIfAny(pod, "ipAddrsNoIpam");
  if (requested !== undefined && withoutIpam !== undefined) {
    throw annotationInvalid(requested, "can't have both annotations, ipAddrs and ipAddrsNoIpam, at the same time");
  }
  const annotation = requested ?? withoutIpam;
  if (annotation === undefined) return { kind: "ipam" };

  const { type } = config.ipam;
  if (!isCalicoIpam(type)) {
    const name = requested === undefined ? "ipAddrsNoIpam" : "ipAddrs";
    throw annotationInvalid(annotation, `${name} is not compatible with configured IPAM: ${type}`);
  }
  if (withoutIpam !== undefined && !config.featureControl.ipAddrsNoIpam) throw featureDisabled(withoutIpam, "ip_addrs_no_ipam");
  return { kind: requested === undefined ? "without-ipam" : "requested", addresses: addressesOf(annotation) };
}

/** Reads them without prefix length (recording ipaddrs-cidr). */
function addressesOf(annotation: Annotation): readonly Address[] {
  const wording = notJson(annotation);
  const { key, value } = annotation;
  const texts = stringsOf(annotation, (reason) => `failed to parse IPs ${shortened(value)} for annotation "${key}": ${wording(reason)}`);
  if (texts.length === 0) throw annotationInvalid(annotation, `annotation "${key}" specified but empty`);
  const families = new Set<Family>();
  return texts.map((text) => {
    const address = parseAddress(text);
    if (address === undefined) throw annotationInvalid(annotation, `invalid IP format: ${text}`);
    if (families.has(address.family)) {
      throw annotationInvalid(annotation, `cannot have more than one IPv${address.family} address for "${key}" annotation`);
    }
    families.add(address.family);
    return address;
  });
}

/**
 * Reads `allowedSourcePrefixes`: what else a pod may send from (C§3.1).
 * @returns canonical CIDRs without host bits (recording spoof-valid)
 * @throws TortieError `annotation-invalid`
 */
export function annotatedSourcePrefixes(pod: AnnotatedPod): readonly string[] {
  const annotation = podAnnotationIfAny(pod, "allowedSourcePrefixes");
  if (annotation === undefined) return [];
  return stringsOf(annotation, notJson(annotation)).map((text) => {
    const prefix = parsePrefix(text);
    if (prefix === undefined) throw annotationInvalid(annotation, `failed to parse '${text}' as a CIDR: invalid CIDR address: ${text}`);
    return formatPrefix(maskPrefix(prefix));
  });
}

type IpamRequests = Pick<PodRequests, "pools" | "families" | "addresses">;

/**
 * Writes the netconf with the pod's pools and families in its `ipam` section (recording spy-annotations), and without the `ips` that the
 * runtime asks for where the pod names addresses itself. No number loses a digit.
 *
 * @returns the very object that was given when the pod asks for nothing of the kind
 */
export function withPodPools(netconf: JsonObject, requests: IpamRequests): JsonObject {
  let edited = netconf;
  const section = memberOf(netconf, "ipam");
  if (isJsonObject(section)) {
    let changed = section;
    for (const [key, value] of Object.entries(ipamMembers(requests))) changed = withMember(changed, key, value);
    if (changed !== section) edited = withMember(edited, "ipam", changed);
  }
  const runtimeConfig = memberOf(netconf, "runtimeConfig");
  if (requests.addresses.kind !== "ipam" && isJsonObject(runtimeConfig) && memberOf(runtimeConfig, "ips") !== undefined) {
    edited = withMember(edited, "runtimeConfig", withMember(runtimeConfig, "ips", undefined));
  }
  return edited;
}

/** Does the same to the decoded configuration, for an IPAM plugin that is served in this process. */
export function configWithPodPools(config: NetworkConfig, requests: IpamRequests): NetworkConfig {
  const { pools, families, addresses } = requests;
  const { ipam, runtimeConfig } = config;
  return {
    ...config,
    ipam: {
      ...ipam,
      ipv4Pools: pools.ipv4 ?? ipam.ipv4Pools,
      ipv6Pools: pools.ipv6 ?? ipam.ipv6Pools,
      assignIpv4: families?.ipv4 ?? ipam.assignIpv4,
      assignIpv6: families?.ipv6 ?? ipam.assignIpv6,
    },
    runtimeConfig: addresses.kind === "ipam" ? runtimeConfig : { ...runtimeConfig, ips: [] },
  };
}

/** Lists the members of `ipam` that are set; the families are words, not booleans (I§1.3). */
function ipamMembers({ pools, families }: IpamRequests): Readonly<Record<string, JsonValue>> {
  return {
    ...(pools.ipv4 === undefined ? {} : { ipv4_pools: pools.ipv4 }),
    ...(pools.ipv6 === undefined ? {} : { ipv6_pools: pools.ipv6 }),
    ...(families === undefined ? {} : { assign_ipv4: String(families.ipv4), assign_ipv6: String(families.ipv6) }),
  };
}
