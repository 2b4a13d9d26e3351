/** Where a pod's addresses stand, and whether it still has one (C§7.5). */
import { formatPrefix, hostPrefix, parseAddress, parsePrefix } from "../../addresses/address.ts";
import type { TortieError } from "../../errors/errors.ts";
import type { Pod } from "../../kubernetes/objects.ts";
import { ANNOTATION_PREFIX, annotationInvalid } from "./annotation.ts";
import { type ListedAddresses, listedAddresses } from "./named-addresses.ts";

export const POD_IP = `${ANNOTATION_PREFIX}podIP`;
export const POD_IPS = `${ANNOTATION_PREFIX}podIPs`;
/** Of the network plugin for AWS. */
const AWS_POD_IPS = "vpc.amazonaws.com/pod-ips";

export interface PodAddresses {
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
