/**
 * Judges objects of Kubernetes and Calico: the codecs of the datastore decode them, their values are read as the allocator reads them, and
 * annotations as an ADD does.
 */

import { parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { checkPoolRange } from "../../lib/config/ipam-section.ts";
import { affinityCodec } from "../../lib/datastore/calico/affinity.ts";
import { blockCodec, handleCodec } from "../../lib/datastore/calico/block.ts";
import type { Codec } from "../../lib/datastore/calico/codec.ts";
import { type ApiGroup, LEGACY_GROUP, V3_GROUP } from "../../lib/datastore/calico/codec.ts";
import { clusterInformationCodec, configurationCodec, poolCodec, reservationCodec } from "../../lib/datastore/calico/pool.ts";
import { CONTAINER_ID } from "../../lib/datastore/kubernetes/pod-record.ts";
import type { IPPool, IPReservation } from "../../lib/datastore/resources.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type Fields, isObject, section, text } from "../../lib/json/decode.ts";
import type { Step } from "../../lib/json/position.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import { parseSelector } from "../../lib/selector/parser.ts";
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
import { type Judgement, judged, suggestionFor, warning } from "./finding.ts";
import { unknownKey } from "./network.ts";

type Judge = (object: Fields, root: readonly Step[], group: ApiGroup) => readonly Judgement[];

/** Members of the spec that only other programs of Calico read (I§2.6, I§2.7). */
const OF_OTHERS: Readonly<Record<string, readonly string[]>> = {
  IPPool: ["ipipMode", "vxlanMode", "disableBGPExport", "nat-outgoing", "ipip"],
  ClusterInformation: ["clusterGUID", "clusterType", "calicoVersion", "variant"],
};

const NO_VALUES = () => [];

/** Has each codec with the further checks of its value; the kinds of both groups. */
const KINDS: readonly { readonly kinds: readonly string[]; readonly judge: Judge }[] = [
  kind(poolCodec, judgePool),
  kind(reservationCodec, judgeReservation),
  kind(configurationCodec, NO_VALUES),
  kind(clusterInformationCodec, NO_VALUES),
  kind(affinityCodec, ({ cidr }, spec, root) => prefixProblem(cidr, spec, root)),
  kind(blockCodec, NO_VALUES),
  kind(handleCodec, NO_VALUES),
];

/** Judges anything with `kind`, and each item of a list that Tortie reads; `document-unknown` alone when it reads none of it. */
export function judgeObject(object: Fields, root: readonly Step[] = []): readonly Judgement[] {
  const { kind: name, apiVersion, items } = object;
  if (typeof name === "string" && name.endsWith("List") && Array.isArray(items)) {
    const each = items.map((item, index) => (isObject(item) ? judgeObject(item, [...root, "items", index]) : []));
    const ours = each.filter((judgements) => !judgements.some(({ code }) => code === "document-unknown"));
    return (ours.length > 0 ? ours : each).flat();
  }
  if (apiVersion === LEGACY_GROUP || apiVersion === V3_GROUP) {
    const found = KINDS.find(({ kinds }) => kinds.some((one) => one === name));
    if (found !== undefined) return found.judge(object, root, apiVersion);
  }
  if (name === "Pod" && apiVersion === "v1") return judgePod(object, root);
  if (name === "Namespace" && apiVersion === "v1") return ofMetadata(object, root, judgeNamespaceAnnotations);
  const template = templateOf(object);
  if (template !== undefined) return judgePod(template.object, [...root, ...template.path]);
  return [warning("document-unknown", root, `objects of kind ${String(name)} (${String(apiVersion)}) are not judged`)];
}

function kind<K, T>(
  codec: Codec<K, T>,
  judgeValue: (value: T, spec: Fields, root: readonly Step[]) => readonly Judgement[],
): { readonly kinds: readonly string[]; readonly judge: Judge } {
  const judge: Judge = (object, root) => {
    let value: T | undefined;
    const spec = isObject(object.spec) ? object.spec : {};
    const wrong = decoding(spec, root, () => {
      value = codec.decode({ metadata: metadataOf(object), spec: section(object, "spec"), status: section(object, "status") });
      codec.verify?.(value);
    });
    const known = [...codec.members, ...(OF_OTHERS[codec.title] ?? [])];
    const unknown = Object.keys(spec).filter((key) => !known.includes(key));
    const inSpec = [...root, "spec"];
    const keys = unknown.map((key) => unknownKey(key, [...inSpec, key], known));
    if (wrong.length > 0 || value === undefined) return [...keys, ...wrong];
    const oddity = codec.oddityOf?.(value);
    return [...keys, ...(oddity === undefined ? [] : [warning("value-ignored", inSpec, oddity)]), ...judgeValue(value, spec, root)];
  };
  return { kinds: [codec.kind(LEGACY_GROUP), codec.kind(V3_GROUP)], judge };
}

/** Errors of codecs name the field first of all. */
function decoding(spec: Fields, root: readonly Step[], decode: () => void): readonly Judgement[] {
  return judged(decode, root, undefined).map((judgement) => {
    const field = judgement.message.split(/[\s:]+/).find((word) => Object.hasOwn(spec, word));
    return { ...judgement, path: [...root, "spec", ...(field === undefined ? [] : [field])] };
  });
}

/** Judges the CIDR as it is written: the decoder would mask it. */
function judgePool({ blockSize }: IPPool, spec: Fields, root: readonly Step[]): readonly Judgement[] {
  const selector = (name: string) => judged(() => void parseSelector(text(spec, name)), [...root, "spec", name], undefined);
  const range = judged(() => void checkPoolRange("spec", { cidr: text(spec, "cidr"), blockSize }), root, { spec }, ["spec"]);
  return [...range, ...selector("nodeSelector"), ...selector("namespaceSelector")];
}

/** Warns of what is not a CIDR, which the allocator passes over (I§2.8). */
function judgeReservation({ reservedCIDRs }: IPReservation, _spec: Fields, root: readonly Step[]): readonly Judgement[] {
  return reservedCIDRs.flatMap((text, index) =>
    parsePrefix(text) === undefined && parseAddress(text) === undefined
      ? [warning("value-ignored", [...root, "spec", "reservedCIDRs", index], `${JSON.stringify(text)} is neither an address nor a CIDR`)]
      : [],
  );
}

function prefixProblem(cidr: string, _spec: Fields, root: readonly Step[]): readonly Judgement[] {
  if (parsePrefix(cidr) !== undefined) return [];
  const message = `${JSON.stringify(cidr)} is not an address with a prefix length`;
  return [{ severity: "error", code: "datastore-object-invalid", path: [...root, "spec", "cidr"], message }];
}

function judgePod(object: Fields, root: readonly Step[]): readonly Judgement[] {
  return ofMetadata(object, root, judgePodAnnotations);
}

function ofMetadata(object: Fields, root: readonly Step[], judge: typeof judgePodAnnotations): readonly Judgement[] {
  try {
    const { name, namespace, annotations } = metadataOf(object);
    return judge({ name, namespace: namespace || "default", annotations }, [...root, "metadata", "annotations"]);
  } catch (error) {
    return [{ severity: "error", code: "datastore-object-invalid", path: [...root, "metadata"], message: `metadata: ${messageOf(error)}` }];
  }
}

/** Finds the pod of a Deployment and its like, or of a CronJob. */
function templateOf({ spec }: Fields): { readonly object: Fields; readonly path: readonly Step[] } | undefined {
  if (!isObject(spec)) return undefined;
  if (isObject(spec.template)) return { object: spec.template, path: ["spec", "template"] };
  const inner = isObject(spec.jobTemplate) ? templateOf(spec.jobTemplate) : undefined;
  return inner && { object: inner.object, path: ["spec", "jobTemplate", ...inner.path] };
}

/** Switches all of `feature_control` on: which are is the cluster's to say. */
const config = () =>
  decodeNetworkConfig({ ipam: { type: "calico-ipam" }, feature_control: { ip_addrs_no_ipam: true, floating_ips: true } });

type Reader = (pod: AnnotatedPod) => unknown;

/** Reads these of a namespace as well, for its pods without their own (C§3.2). */
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

/** Lists what ADD itself writes. */
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
