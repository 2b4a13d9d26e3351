/** `ipAddrs` and `ipAddrsNoIpam`: addresses that a pod asks for by name (C§2.5). */
import { type Address, type Family, parseAddress } from "../../addresses/address.ts";
import { isCalicoIpam } from "../../config/ipam-section.ts";
import type { NetworkConfig } from "../../config/network-config.ts";
import {
  type AnnotatedPod,
  type Annotation,
  annotationInvalid,
  featureDisabled,
  notJson,
  podAnnotationIfAny,
  shortened,
  stringsOf,
} from "./annotation.ts";

/**
 * Where the addresses come from: what the IPAM plugin chooses, or is asked for by `runtimeConfig.ips` or CNI_ARGS; or the pod's own
 * list in the pod's own order, at most one of each family, taken through the IPAM plugin ("requested") or past it ("without-ipam").
 */
export type AnnotatedAddresses =
  | { readonly kind: "ipam" }
  | { readonly kind: "requested" | "without-ipam"; readonly addresses: readonly Address[] };

/** @throws TortieError `annotation-invalid`, `feature-disabled` */
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

/** Without prefix length (recording ipaddrs-cidr). */
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
