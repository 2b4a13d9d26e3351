/**
 * What a pod asks for, in one place. The first source that says anything counts, alone, nothing is merged:
 *
 *   pools and families    pod annotation, namespace annotation, the netconf's `ipam` section, all enabled pools (C§3.2)
 *   addresses             pod annotation, then what the runtime asks for: `runtimeConfig.ips`, `IP=` of CNI_ARGS
 *   MAC                   pod annotation, then what the runtime asks for: `runtimeConfig.mac`, `MAC=` of CNI_ARGS
 *   floating IPs, source prefixes   pod annotation only
 *
 * Annotations are inert unless `policy.type` is `k8s` (C§2.3 S5). An ADD reads them before it takes an address, so that a bad one
 * leaves nothing behind; DEL never reads them (design §8).
 */
import type { Address, Family } from "../../addresses/address.ts";
import { isCalicoIpam } from "../../config/ipam-section.ts";
import type { NetworkConfig } from "../../config/network-config.ts";
import { isAssignableMac, type MacAddress, parseMac, UNASSIGNABLE_MAC } from "../mac.ts";
import type { Requested } from "../requested.ts";
import { type AnnotatedAddresses, annotatedAddresses } from "./addresses.ts";
import { type AnnotatedNamespace, type AnnotatedPod, annotationInvalid, podAnnotation } from "./annotation.ts";
import { annotatedFloatingIps } from "./floating-ips.ts";
import { type AnnotatedPools, annotatedFamilies, annotatedPools, type Families } from "./pools.ts";
import { annotatedSourcePrefixes } from "./source-prefixes.ts";

export interface PodRequests {
  /** Of the annotations alone: `undefined` leaves the netconf as it is. */
  readonly pools: AnnotatedPools;
  /** Of the annotations alone: `undefined` leaves the netconf as it is. */
  readonly families: Families | undefined;
  readonly addresses: AnnotatedAddresses;
  /** Of all sources; `undefined` leaves the choice to the kernel. */
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

/** The families that the pod will have, as far as that is certain before the IPAM plugin has answered. */
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
 * Present but empty is an error (recording hwaddr-empty), and so are eight octets (lib/workload/mac.ts says why).
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
