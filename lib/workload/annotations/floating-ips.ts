/** `floatingIPs`: addresses of the outside that Felix translates to the pod's own (C§3.3). */
import { type Address, type Family, formatAddress, parseAddress, parsePrefix } from "../../addresses/address.ts";
import type { NetworkConfig } from "../../config/network-config.ts";
import { TortieError } from "../../errors/errors.ts";
import type { WorkloadEndpoint } from "../workload-endpoint.ts";
import {
  ANNOTATION_PREFIX,
  type AnnotatedPod,
  type Annotation,
  annotationInvalid,
  featureDisabled,
  notJson,
  podAnnotationIfAny,
  stringsOf,
} from "./annotation.ts";

type Nat = WorkloadEndpoint["ipNATs"][number];

const NAME = "floatingIPs";

/**
 * What an ADD asks for; judged before addresses are taken.
 *
 * @param families those that the pod will have; `undefined` when only the IPAM plugin knows
 * @throws TortieError `feature-disabled`; `annotation-invalid` also where Calico panics (recordings floating-bad-ip,
 * floating-family-absent)
 */
export function annotatedFloatingIps(
  pod: AnnotatedPod,
  config: Pick<NetworkConfig, "featureControl">,
  families: ReadonlySet<Family> | undefined,
): readonly Address[] {
  const annotation = podAnnotationIfAny(pod, NAME);
  if (annotation === undefined) return [];
  if (!config.featureControl.floatingIps) throw featureDisabled(annotation, "floating_ips");
  const addresses = floatingIpsOf(annotation);
  for (const address of addresses) {
    if (families !== undefined && !families.has(address.family)) throw annotationInvalid(annotation, familyAbsent(address));
  }
  return addresses;
}

/**
 * The NATs of an endpoint, in the order of the floating IPs. They take the place of what a record had before, where Calico appends
 * (recording floating-twice, design §8).
 *
 * @param ipNetworks /32 and /128
 * @throws TortieError `annotation-invalid` when the pod has no address of a floating IP's family
 */
export function floatingNats(floatingIps: readonly Address[], ipNetworks: readonly string[]): readonly Nat[] {
  return floatingIps.map((floatingIp) => {
    const nat = natTo(floatingIp, ipNetworks);
    if (nat === undefined) {
      throw new TortieError("annotation-invalid", `${familyAbsent(floatingIp)} (annotation ${ANNOTATION_PREFIX}${NAME})`);
    }
    return nat;
  });
}

/**
 * The NATs of a pod as it stands, whatever `feature_control` says: none while it has no address, none for a family it lacks.
 * @throws TortieError `annotation-invalid`
 */
export function presentNats(pod: AnnotatedPod, ipNetworks: readonly string[]): readonly Nat[] {
  const annotation = podAnnotationIfAny(pod, NAME);
  if (annotation === undefined || ipNetworks.length === 0) return [];
  return floatingIpsOf(annotation).flatMap((floatingIp) => natTo(floatingIp, ipNetworks) ?? []);
}

function floatingIpsOf(annotation: Annotation): readonly Address[] {
  return stringsOf(annotation, notJson(annotation)).map((text) => {
    const address = parseAddress(text);
    if (address === undefined) throw annotationInvalid(annotation, `floating IP ${JSON.stringify(text)} is not an IP address`);
    return address;
  });
}

function natTo(floatingIp: Address, ipNetworks: readonly string[]): Nat | undefined {
  for (const network of ipNetworks) {
    const own = parsePrefix(network)?.address;
    if (own?.family === floatingIp.family) return { internalIP: formatAddress(own), externalIP: formatAddress(floatingIp) };
  }
  return undefined;
}

function familyAbsent(floatingIp: Address): string {
  return `floating IP ${formatAddress(floatingIp)} needs an IPv${floatingIp.family} address, which this pod does not get`;
}
