/** The form that most annotations have: a JSON list of strings (C§3.1). */
import { messageOf, type TortieError } from "../../errors/errors.ts";
import { kindOf } from "../../json/members.ts";
import { parseJson } from "../../json/parse.ts";
import type { JsonValue } from "../../json/value.ts";
import { type Annotation, annotationInvalid, shortened } from "./annotation.ts";

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

/** The wording of most readers (recordings ipaddrs-bad-json, floating-bad-json, del-bad-allowedsourceprefixes). */
export function notJson({ value }: Annotation): (reason: string) => string {
  return (reason) => `failed to parse '${shortened(value)}' as JSON: ${reason}`;
}
