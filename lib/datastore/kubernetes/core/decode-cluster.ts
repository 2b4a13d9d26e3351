/** Namespaces and nodes as the API server tells them, to the part that Tortie reads. */
import { type Fields, field, has, isObject, isText, listOf, mapOf, parseObject, section } from "../../../json/decode.ts";
import type { ClusterNode, Namespace } from "../../../kubernetes/objects.ts";
import { metadataOf } from "./metadata.ts";

/** Labels that Calico keeps for a node beside Kubernetes' own (I§3.1). */
const LABELS_ANNOTATION = "projectcalico.org/labels";

const isTextList = listOf(isText);

export function decodeNamespace(object: Fields): Namespace {
  const { name, labels, annotations } = metadataOf(object);
  return { name, labels, annotations };
}

export function decodeNode(object: Fields): ClusterNode {
  const { name, labels, annotations } = metadataOf(object);
  const spec = section(object, "spec");
  return {
    name,
    labels: { ...labelsIn(annotations[LABELS_ANNOTATION] ?? ""), ...labels },
    podCIDRs: has(spec, "podCIDRs") ? field(spec, "podCIDRs", isTextList) : [],
  };
}

/** Whatever else the annotation holds counts as no labels: a node must not lose its addresses for a slip in an annotation. */
function labelsIn(annotation: string): Readonly<Record<string, string>> {
  try {
    const parsed = parseObject(annotation);
    return isObject(parsed) && mapOf(isText)(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
