/** `allowedSourcePrefixes`: what else a pod may send from (C§3.1). */
import { formatPrefix, maskPrefix, parsePrefix } from "../../addresses/address.ts";
import { type AnnotatedPod, annotationInvalid, notJson, podAnnotationIfAny, stringsOf } from "./annotation.ts";

/**
 * @returns canonical CIDRs without host bits (recording spoof-valid)
 * @throws TortieError `annotation-invalid`
 */
export function annotatedSourcePrefixes(pod: AnnotatedPod): readonly string[] {
  const annotation = podAnnotationIfAny(pod, "allowedSourcePrefixes");
  if (annotation === undefined) return [];
  return stringsOf(annotation, notJson(annotation)).map((text) => {
    const prefix = parsePrefix(text);
    if (prefix === undefined) throw annotationInvalid(annotation, `failed to parse '${text}' as a CIDR: invalid CIDR address: ${text}`);
    return formatPrefix(maskPrefix(prefix));
  });
}
