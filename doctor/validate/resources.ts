/** Objects of Kubernetes and Calico: decoded by the codecs of the datastore, and their values judged as the allocator reads them. */

import { parseAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { checkPoolRange } from "../../lib/config/ipam-section.ts";
import { affinityCodec } from "../../lib/datastore/calico/affinity.ts";
import { blockCodec, handleCodec } from "../../lib/datastore/calico/block.ts";
import type { Codec } from "../../lib/datastore/calico/codec.ts";
import { type ApiGroup, LEGACY_GROUP, V3_GROUP } from "../../lib/datastore/calico/codec.ts";
import { clusterInformationCodec, configurationCodec, poolCodec, reservationCodec } from "../../lib/datastore/calico/pool.ts";
import type { IPPool, IPReservation } from "../../lib/datastore/resources.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type Fields, isObject, section, text } from "../../lib/json/decode.ts";
import type { Step } from "../../lib/json/position.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import { parseSelector } from "../../lib/selector/parser.ts";
import { judgeNamespaceAnnotations, judgePodAnnotations } from "./annotations.ts";
import { type Judgement, judged, warning } from "./finding.ts";
import { unknownKey } from "./network.ts";

type Judge = (object: Fields, root: readonly Step[], group: ApiGroup) => readonly Judgement[];

/** Members of the spec that only other programs of Calico read (I§2.6, I§2.7). */
const OF_OTHERS: Readonly<Record<string, readonly string[]>> = {
  IPPool: ["ipipMode", "vxlanMode", "disableBGPExport", "nat-outgoing", "ipip"],
  ClusterInformation: ["clusterGUID", "clusterType", "calicoVersion", "variant"],
};

const NO_VALUES = () => [];

/** Each codec with the further checks of its value; the kinds of both groups. */
const KINDS: readonly { readonly kinds: readonly string[]; readonly judge: Judge }[] = [
  kind(poolCodec, judgePool),
  kind(reservationCodec, judgeReservation),
  kind(configurationCodec, NO_VALUES),
  kind(clusterInformationCodec, NO_VALUES),
  kind(affinityCodec, ({ cidr }, spec, root) => prefixProblem(cidr, spec, root)),
  kind(blockCodec, NO_VALUES),
  kind(handleCodec, NO_VALUES),
];

/** Anything with `kind`, and each item of a list that Tortie reads; `document-unknown` alone when it reads none of it. */
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

/** The CIDR as it is written: the decoder would mask it. */
function judgePool({ blockSize }: IPPool, spec: Fields, root: readonly Step[]): readonly Judgement[] {
  const selector = (name: string) => judged(() => void parseSelector(text(spec, name)), [...root, "spec", name], undefined);
  const range = judged(() => void checkPoolRange("spec", { cidr: text(spec, "cidr"), blockSize }), root, { spec }, ["spec"]);
  return [...range, ...selector("nodeSelector"), ...selector("namespaceSelector")];
}

/** The allocator passes over what is no CIDR (I§2.8). */
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

/** The pod of a Deployment and its like, or of a CronJob. */
function templateOf({ spec }: Fields): { readonly object: Fields; readonly path: readonly Step[] } | undefined {
  if (!isObject(spec)) return undefined;
  if (isObject(spec.template)) return { object: spec.template, path: ["spec", "template"] };
  const inner = isObject(spec.jobTemplate) ? templateOf(spec.jobTemplate) : undefined;
  return inner && { object: inner.object, path: ["spec", "jobTemplate", ...inner.path] };
}
