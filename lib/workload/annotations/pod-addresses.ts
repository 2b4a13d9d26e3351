/**
 * Reads where a pod's addresses stand and whether it still has one (C§7.5), and `floatingIPs`: addresses of the outside that Felix translates
 * to the pod's own (C§3.3).
 */
import { type Address, type Family, formatAddress, formatPrefix, hostPrefix, parseAddress, parsePrefix } from "../../addresses/address.ts";
import type { NetworkConfig } from "../../config/decode.ts";
import { TortieError } from "../../errors/errors.ts";
import type { Pod } from "../../kubernetes/objects.ts";
import type { WorkloadEndpoint } from "../endpoint.ts";
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

export const POD_IP = `${ANNOTATION_PREFIX}podIP`;
export const POD_IPS = `${ANNOTATION_PREFIX}podIPs`;
/** The annotation of the network plugin for AWS. */
const AWS_POD_IPS = "vpc.amazonaws.com/pod-ips";

interface PodAddresses {
  /** /32 and /128, in their order. */
  readonly networks: readonly string[];
  /** Only annotations say so, which whoever may patch the pod writes (design, invariant 17). */
  readonly isClaimed: boolean;
  /** Texts that are no addresses; they are left out of `networks`. */
  readonly problems: readonly TortieError[];
}

const NONE: PodAddresses = { networks: [], isClaimed: false, problems: [] };

/** A finished pod has no addresses any more, whatever its status says. */
export function addressesOfPod(pod: Pod): PodAddresses {
  if (isFinished(pod)) return NONE;
  for (const { key, value, elements, isWhole, isClaimed } of sourcesOf(pod)) {
    if (elements.length === 0) continue;
    const networks: string[] = [];
    const problems: TortieError[] = [];
    for (const text of elements) {
      const address = parseAddress(text) ?? parsePrefix(text)?.address;
      if (address !== undefined) networks.push(formatPrefix(hostPrefix(address)));
      else problems.push(invalid(pod, key, value, `invalid CIDR address: ${text}`));
    }
    if (!isWhole) problems.push(invalid(pod, key, value, `too long: only the first ${elements.length} addresses are read`));
    return { networks, isClaimed, problems };
  }
  return NONE;
}

/** It will not use its addresses again: it is deleted and its DEL is done, or all its containers have ended. */
export function isFinished(pod: Pick<Pod, "isDeleting" | "annotations" | "phase">): boolean {
  if (pod.isDeleting && (pod.annotations[POD_IP] === "" || pod.annotations[AWS_POD_IPS] === "")) return true;
  return pod.phase === "Succeeded" || pod.phase === "Failed" || pod.phase === "Completed";
}

interface Source extends ListedAddresses {
  readonly key: string;
  readonly value: string;
  readonly isClaimed: boolean;
}

/** The status comes first: kubelet's word counts once it has spoken. */
function sourcesOf({ podIPs, podIP, annotations }: Pod): readonly Source[] {
  const ofStatus = (key: string, texts: readonly string[]) => {
    const elements = texts.filter((text) => text !== "");
    return { key, value: elements.join(","), elements, isWhole: true, isClaimed: false };
  };
  const ofAnnotation = (key: string) => {
    const value = annotations[key] ?? "";
    return { key, value, isClaimed: true, ...(value === "" ? { elements: [], isWhole: true } : listedAddresses(value)) };
  };
  const single = annotations[POD_IP] ?? "";
  return [
    ofStatus("status.podIPs", podIPs),
    ofStatus("status.podIP", [podIP]),
    ofAnnotation(POD_IPS),
    { key: POD_IP, value: single, elements: single === "" ? [] : [single], isWhole: true, isClaimed: true },
    ofAnnotation(AWS_POD_IPS),
  ];
}

function invalid(pod: Pod, key: string, value: string, problem: string): TortieError {
  return annotationInvalid({ key, value, holder: `pod ${pod.namespace}/${pod.name}` }, problem);
}

/** Limits all texts of one pod together: a hundred entries of Multus' network status. Searching them takes about a millisecond. */
const MOST_CHARACTERS = 32 * 1024;
/** Limits the addresses of one pod. */
const MOST_ADDRESSES = 64;
/** The longest address: an IPv6 one whose last 32 bits are in decimal. */
const LONGEST = 45;

const WORD = /[0-9A-Fa-f:.]+/g;

interface NamedAddresses {
  /** Each once. */
  readonly addresses: readonly Address[];
  readonly isWhole: boolean;
}

/**
 * Finds the addresses that texts of a pod name. Whoever may patch a pod writes its annotations, up to 256 KiB of them, so the search is
 * bounded in characters and in addresses. What it leaves out may name anything: `isWhole` says that nothing was left out.
 *
 * @param texts of one pod, those that matter most first
 */
export function namedAddresses(texts: readonly string[]): NamedAddresses {
  const found = new Map<string, Address>();
  let left = MOST_CHARACTERS;
  for (const text of texts) {
    for (const [word] of cutTo(left, text).matchAll(WORD)) {
      const address = word.length > LONGEST ? undefined : parseAddress(word);
      if (address === undefined) continue;
      const key = `${address.family}:${address.value}`;
      if (found.size === MOST_ADDRESSES && !found.has(key)) return { addresses: [...found.values()], isWhole: false };
      found.set(key, address);
    }
    left -= text.length;
    if (left < 0) return { addresses: [...found.values()], isWhole: false };
  }
  return { addresses: [...found.values()], isWhole: true };
}

interface ListedAddresses {
  readonly elements: readonly string[];
  readonly isWhole: boolean;
}

/** Reads the elements of an annotation that lists addresses, within the same bounds: a plugin writes one or two. */
export function listedAddresses(text: string): ListedAddresses {
  const elements = text.slice(0, MOST_CHARACTERS).split(",", MOST_ADDRESSES + 1);
  return { elements: elements.slice(0, MOST_ADDRESSES), isWhole: text.length <= MOST_CHARACTERS && elements.length <= MOST_ADDRESSES };
}

/** Leaves out the word that the cut goes through: half an address may be another one. */
function cutTo(length: number, text: string): string {
  return text.length <= length ? text : text.slice(0, length).replace(/[0-9A-Fa-f:.]+$/, "");
}

type Nat = WorkloadEndpoint["ipNATs"][number];

const NAME = "floatingIPs";

/**
 * Reads what an ADD asks for; judged before addresses are taken.
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
 * Makes the NATs of an endpoint, in the order of the floating IPs. They take the place of what a record had before, where Calico appends
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
 * Makes the NATs of a pod as it stands, for the families of its addresses, whatever `feature_control` says.
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
