/**
 * Reads one annotation of a pod or of a namespace, with all that an error about it has to name. What Calico's plugins read has the prefix
 * `cni.projectcalico.org/` (C§3.1).
 */
import { messageOf, TortieError } from "../../errors/errors.ts";
import { parseJson } from "../../json/parse.ts";
import { type JsonValue, kindOf } from "../../json/value.ts";
import type { Namespace, Pod } from "../../kubernetes/objects.ts";
import { excerpt } from "../../log/format.ts";

export const ANNOTATION_PREFIX = "cni.projectcalico.org/";

/** The part of a pod that its annotations are read from. */
export type AnnotatedPod = Pick<Pod, "namespace" | "name" | "annotations">;
export type AnnotatedNamespace = Pick<Namespace, "name" | "annotations">;

export interface Annotation {
  /** In full: "cni.projectcalico.org/ipAddrs". */
  readonly key: string;
  readonly value: string;
  /** Whose it is, for messages: "pod default/web". */
  readonly holder: string;
}

/** Values longer than this are cut in messages; the API server takes 256 KiB. */
const SHOWN_OF_VALUE = 200;
const SHOWN_OF_PROBLEM = 800;

/** @returns `undefined` when the pod does not have it; an empty value is a value */
export function podAnnotation(pod: AnnotatedPod, name: string): Annotation | undefined {
  return annotationOf(pod.annotations, name, () => `pod ${pod.namespace}/${pod.name}`);
}

/** An empty value asks for nothing, which is how nearly all of them are read (recordings pools-empty-string, spoof-empty-string). */
export function podAnnotationIfAny(pod: AnnotatedPod, name: string): Annotation | undefined {
  const annotation = podAnnotation(pod, name);
  return annotation?.value === "" ? undefined : annotation;
}

/** Reads the pod's, or else its namespace's; an empty one does not count (C§3.2). */
export function inheritedAnnotation(pod: AnnotatedPod, namespace: AnnotatedNamespace | undefined, name: string): Annotation | undefined {
  const own = podAnnotationIfAny(pod, name);
  if (own !== undefined || namespace === undefined) return own;
  const inherited = annotationOf(namespace.annotations, name, () => `namespace ${namespace.name}`);
  return inherited?.value === "" ? undefined : inherited;
}

/** @param problem begins with what Calico prints for it, because that is what operators search for */
export function annotationInvalid({ key, value, holder }: Annotation, problem: string): TortieError {
  return new TortieError(
    "annotation-invalid",
    `${excerpt(problem.trimEnd(), SHOWN_OF_PROBLEM)} (annotation ${key} of ${holder}: ${JSON.stringify(shortened(value))})`,
  );
}

/** Refuses an annotation that needs a permission of `feature_control` which the network configuration does not give. */
export function featureDisabled({ key, holder }: Annotation, feature: string): TortieError {
  return new TortieError("feature-disabled", `requested feature is not enabled: ${feature} (annotation ${key} of ${holder})`);
}

export function shortened(text: string): string {
  return text.length <= SHOWN_OF_VALUE ? text : `${text.slice(0, SHOWN_OF_VALUE)}…`;
}

function annotationOf(annotations: Readonly<Record<string, string>>, name: string, holder: () => string): Annotation | undefined {
  const key = ANNOTATION_PREFIX + name;
  const value = annotations[key];
  return value === undefined ? undefined : { key, value, holder: holder() };
}

/**
 * `null` is the empty list, as in Go.
 *
 * @param wording what Calico prints around the reason; the reason alone when absent
 * @throws TortieError `annotation-invalid`
 */
export function stringsOf(annotation: Annotation, wording: (reason: string) => string = (reason) => reason): readonly string[] {
  const wrong = (reason: string): TortieError => annotationInvalid(annotation, wording(reason));
  let value: JsonValue;
  try {
    value = parseJson(annotation.value);
  } catch (error) {
    throw wrong(messageOf(error));
  }
  if (value === null) return [];
  if (!Array.isArray(value)) throw wrong(`expected a JSON list of strings, not ${kindOf(value)}`);
  return value.map((item) => {
    if (typeof item !== "string") throw wrong(`expected a JSON list of strings, not ${kindOf(item)} in it`);
    return item;
  });
}

/** Gives the wording of most readers (recordings ipaddrs-bad-json, floating-bad-json, del-bad-allowedsourceprefixes). */
export function notJson({ value }: Annotation): (reason: string) => string {
  return (reason) => `failed to parse '${shortened(value)}' as JSON: ${reason}`;
}
