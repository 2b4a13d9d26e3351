/** A pod as far as addresses depend on it. Decoding takes whatever can be read: a pod that is left out would hold nothing. */

import { keyOf } from "../../doctor/snapshot.ts";
import { parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { decodePod } from "../../lib/datastore/kubernetes/core/decode-objects.ts";
import { CONTAINER_ID } from "../../lib/datastore/kubernetes/pod-record.ts";
import { type Fields, isObject } from "../../lib/json/decode.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { isFinished, POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";

/** What Multus records of every interface of a pod. */
const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";
/** Label of the pods of Calico's kube-controllers, in its manifests, chart and operator. */
const APP_LABEL = "k8s-app";
/** Value of that label, and name of the service account. */
export const KUBE_CONTROLLERS = "calico-kube-controllers";

export interface PodView {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Empty while it is on no node. */
  readonly node: string;
  /** It will not use its addresses again. */
  readonly isFinished: boolean;
  /** Every address that its status or its annotations name, as keys (doctor/snapshot.ts). */
  readonly addresses: readonly string[];
  /** As an ADD has written it; empty when none has. */
  readonly containerId: string;
  /** The annotations that name addresses are not blank. */
  readonly isAnnotated: boolean;
  /** By label and account, and it has not ended. Whether it may say so in its namespace is another question (duties/kube-controllers.ts). */
  readonly isKubeControllers: boolean;
}

export function decodePodView(object: Fields): PodView {
  return podView(decodePod(object));
}

function podView(pod: Pod): PodView {
  const { annotations, labels, serviceAccountName } = pod;
  const annotated = `${annotations[POD_IPS] ?? ""},${annotations[POD_IP] ?? ""}`;
  const texts = [pod.podIP, ...pod.podIPs, ...annotated.split(","), ...networkStatus(annotations[NETWORK_STATUS])];
  return {
    namespace: pod.namespace,
    name: pod.name,
    uid: pod.uid,
    node: pod.nodeName,
    isFinished: isFinished(pod),
    addresses: [...new Set(texts.flatMap(addressKeys))],
    containerId: annotations[CONTAINER_ID] ?? "",
    isAnnotated: annotated !== ",",
    isKubeControllers: labels[APP_LABEL] === KUBE_CONTROLLERS && serviceAccountName === KUBE_CONTROLLERS && !isFinished(pod),
  };
}

function addressKeys(text: string): readonly string[] {
  const trimmed = text.trim();
  const address = parseAddress(trimmed) ?? parsePrefix(trimmed)?.address;
  return address === undefined ? [] : [keyOf(address)];
}

/** Text that cannot be read names no address. */
function networkStatus(annotation: string | undefined): readonly string[] {
  if (annotation === undefined) return [];
  try {
    const parsed: unknown = JSON.parse(annotation);
    const entries = Array.isArray(parsed) ? parsed.filter(isObject) : [];
    return entries.flatMap(({ ips }) => (Array.isArray(ips) ? ips.filter((ip) => typeof ip === "string") : []));
  } catch {
    return [];
  }
}
