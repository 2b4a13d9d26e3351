/** `hwAddr`: the MAC of the pod end (C§3.1). */
import { type MacAddress, parseAssignableMac } from "../mac.ts";
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
  const parsed = parseAssignableMac(annotation.value);
  if ("mac" in parsed) return parsed.mac;
  const { key, value } = annotation;
  const reason = value === "" ? parsed.reason : `address ${value}: ${parsed.reason}`;
  throw annotationInvalid(annotation, `failed to parse MAC address ${value} provided via ${key}: ${reason}`);
}
