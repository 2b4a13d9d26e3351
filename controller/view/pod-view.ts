/** A pod as far as addresses depend on it. Decoding takes whatever can be read: a pod that is left out would hold nothing. */

import { keyOf } from "../../doctor/snapshot.ts";
import { CONTAINER_ID } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { Fields } from "../../lib/json/decode.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { decodePod } from "../../lib/kubernetes/objects.ts";
import { Claimed } from "../../lib/system/claimed.ts";
import { isFinished, namedAddresses, POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";

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
  /** The addresses of its status, as keys (doctor/snapshot.ts). A tenant cannot write them. */
  readonly addresses: readonly string[];
  /** The addresses that its annotations name, as keys. Needs a proof that the pod may speak of the address: judge/allocations.ts. */
  readonly annotated: Claimed<readonly string[]>;
  /** Its annotations were read to their end. Otherwise `annotated` may lack an address. */
  readonly isWhole: boolean;
  /** As an ADD has written it; empty when none has. */
  readonly containerId: string;
  /** The annotations that name addresses are not blank. */
  readonly isAnnotated: boolean;
  /** By label and account, and it has not ended. Whether it may say so in its namespace is another question (duties/live-cluster.ts). */
  readonly isKubeControllers: boolean;
}

export function decodePodView(object: Fields): PodView {
  return podView(decodePod(object));
}

function podView(pod: Pod): PodView {
  const { annotations, labels, serviceAccountName } = pod;
  const recorded = [annotations[POD_IPS] ?? "", annotations[POD_IP] ?? ""];
  const named = namedAddresses([...recorded, annotations[NETWORK_STATUS] ?? ""]);
  const status = namedAddresses([pod.podIP, ...pod.podIPs]);
  return {
    namespace: pod.namespace,
    name: pod.name,
    uid: pod.uid,
    node: pod.nodeName,
    isFinished: isFinished(pod),
    addresses: status.addresses.map(keyOf),
    annotated: new Claimed(named.addresses.map(keyOf)),
    isWhole: named.isWhole && status.isWhole,
    containerId: annotations[CONTAINER_ID] ?? "",
    isAnnotated: recorded.some((text) => text !== ""),
    isKubeControllers: labels[APP_LABEL] === KUBE_CONTROLLERS && serviceAccountName === KUBE_CONTROLLERS && !isFinished(pod),
  };
}
