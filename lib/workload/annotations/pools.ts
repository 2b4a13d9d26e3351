/** `ipv4pools`, `ipv6pools` and `ipFamilies`: of the pod, or else of its namespace, each key for itself, nothing merged (C§3.2). */
import { type AnnotatedNamespace, type AnnotatedPod, annotationInvalid, inheritedAnnotation, shortened, stringsOf } from "./annotation.ts";

/** Names or CIDRs. `undefined`: no annotation; empty: any pool will do (recording pools-empty-list). */
export interface AnnotatedPools {
  readonly ipv4: readonly string[] | undefined;
  readonly ipv6: readonly string[] | undefined;
}

export interface Families {
  readonly ipv4: boolean;
  readonly ipv6: boolean;
}

/** Whether the pools exist and are of the right family is the IPAM plugin's to say. @throws TortieError `annotation-invalid` */
export function annotatedPools(pod: AnnotatedPod, namespace: AnnotatedNamespace | undefined): AnnotatedPools {
  const poolsOf = (name: string) => {
    const annotation = inheritedAnnotation(pod, namespace, name);
    return annotation === undefined ? undefined : stringsOf(annotation);
  };
  return { ipv4: poolsOf("ipv4pools"), ipv6: poolsOf("ipv6pools") };
}

/**
 * A family that is not listed is switched off, so that the empty list leaves none (recording ipfamilies-empty).
 * @throws TortieError `annotation-invalid`; the words count in exactly this case (recording ipfamilies-bogus)
 */
export function annotatedFamilies(pod: AnnotatedPod, namespace: AnnotatedNamespace | undefined): Families | undefined {
  const annotation = inheritedAnnotation(pod, namespace, "ipFamilies");
  if (annotation === undefined) return undefined;
  const problem = `error parsing ipFamilies: ${shortened(annotation.value)}`;
  const families = stringsOf(annotation, (reason) => `${reason}: ${problem}`);
  if (!families.every((family) => family === "IPv4" || family === "IPv6")) throw annotationInvalid(annotation, problem);
  return { ipv4: families.includes("IPv4"), ipv6: families.includes("IPv6") };
}
