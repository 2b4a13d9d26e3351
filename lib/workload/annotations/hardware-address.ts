/** `hwAddr`: the MAC of the pod end (C§3.1). */
import { isAssignableMac, type MacAddress, parseMac, UNASSIGNABLE_MAC } from "../mac.ts";
import { type AnnotatedPod, annotationInvalid, podAnnotation } from "./annotation.ts";

/**
 * Present but empty is an error (recording hwaddr-empty), and so are eight octets (lib/workload/mac.ts says why).
 *
 * @returns canonical text
 * @throws TortieError `annotation-invalid`
 */
export function wishedMac(pod: AnnotatedPod): MacAddress | undefined {
  const annotation = podAnnotation(pod, "hwAddr");
  if (annotation === undefined) return undefined;
  const parsed = parseMac(annotation.value);
  const { key, value } = annotation;
  if ("mac" in parsed) {
    if (isAssignableMac(parsed.mac)) return parsed.mac;
    throw annotationInvalid(annotation, `MAC address ${value} provided via ${key}: ${UNASSIGNABLE_MAC}`);
  }
  const reason = value === "" ? parsed.reason : `address ${value}: ${parsed.reason}`;
  throw annotationInvalid(annotation, `failed to parse MAC address ${value} provided via ${key}: ${reason}`);
}
