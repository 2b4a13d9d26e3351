/** The annotations of pods, pod templates and namespaces, read by the readers that an ADD calls. */
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { CONTAINER_ID } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { Step } from "../../lib/json/position.ts";
import { ANNOTATION_PREFIX, type AnnotatedPod } from "../../lib/workload/annotations/annotation.ts";
import { annotatedFloatingIps, POD_IP, POD_IPS } from "../../lib/workload/annotations/pod-addresses.ts";
import {
  annotatedAddresses,
  annotatedFamilies,
  annotatedMac,
  annotatedPools,
  annotatedSourcePrefixes,
} from "../../lib/workload/annotations/requests.ts";
import { qosControlsOf } from "../../lib/workload/qos-controls.ts";
import { type Judgement, judged, warning } from "./finding.ts";
import { suggestionFor } from "./suggest.ts";

/** Whether a switch of `feature_control` is on is the cluster's to say: here all are. */
const config = () =>
  decodeNetworkConfig({ ipam: { type: "calico-ipam" }, feature_control: { ip_addrs_no_ipam: true, floating_ips: true } });

type Reader = (pod: AnnotatedPod) => unknown;

/** Read of a namespace as well, for its pods that have none of their own (C§3.2). */
const INHERITED: Readonly<Record<string, Reader>> = {
  ipv4pools: (pod) => annotatedPools(pod, undefined),
  ipv6pools: (pod) => annotatedPools(pod, undefined),
  ipFamilies: (pod) => annotatedFamilies(pod, undefined),
};

const READERS: Readonly<Record<string, Reader>> = {
  ...INHERITED,
  ipAddrs: (pod) => annotatedAddresses(pod, config()),
  ipAddrsNoIpam: (pod) => annotatedAddresses(pod, config()),
  hwAddr: annotatedMac,
  floatingIPs: (pod) => annotatedFloatingIps(pod, config(), undefined),
  allowedSourcePrefixes: annotatedSourcePrefixes,
};

/** What ADD itself writes. */
const WRITTEN = [POD_IP, POD_IPS, CONTAINER_ID];

/** @param root of the annotations */
export function judgePodAnnotations(pod: AnnotatedPod, root: readonly Step[]): readonly Judgement[] {
  const each = judgeAnnotations(pod, READERS, root);
  // Each was right by itself: what is left is whether they go together.
  const together = each.some(({ severity }) => severity === "error")
    ? []
    : judged(() => void annotatedAddresses(pod, config()), [...root, `${ANNOTATION_PREFIX}ipAddrs`], undefined);
  const limits = qosControlsOf(pod.annotations).warnings.map((message) => {
    const key = Object.keys(pod.annotations).find((name) => message.includes(name));
    return warning("value-ignored", key === undefined ? root : [...root, key], message);
  });
  return [...each, ...together, ...limits];
}

/** @param root of the annotations */
export function judgeNamespaceAnnotations(namespace: AnnotatedPod, root: readonly Step[]): readonly Judgement[] {
  return judgeAnnotations(namespace, INHERITED, root);
}

function judgeAnnotations(pod: AnnotatedPod, readers: Readonly<Record<string, Reader>>, root: readonly Step[]): readonly Judgement[] {
  const names = [...Object.keys(readers).map((name) => ANNOTATION_PREFIX + name), ...WRITTEN];
  return Object.entries(pod.annotations).flatMap(([key, value]) => {
    if (!key.startsWith(ANNOTATION_PREFIX)) return [];
    const path = [...root, key];
    const read = readers[key.slice(ANNOTATION_PREFIX.length)];
    if (read !== undefined) return judged(() => void read({ ...pod, annotations: { [key]: value } }), path, undefined);
    if (names.includes(key)) return [];
    return [warning("key-unknown", path, `the annotation ${key} is not known here, and ignored`, suggestionFor(key, names))];
  });
}
