/**
 * The JSON values Tortie works with: plain JavaScript, except that a number JavaScript cannot hold exactly keeps its text.
 * Block sequence numbers are near 1.8e18 (I§2.4), and a forwarded netconf must not lose a digit (design, corrections).
 */

/** A number whose text is not what JavaScript would print for it, for instance an integer beyond 2^53. */
export class RawNumber {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

export type JsonValue = null | boolean | number | RawNumber | string | readonly JsonValue[] | JsonObject;

/** Made without a prototype, so that a key "__proto__" is a key like any other. Keys keep the order of the text. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof RawNumber);
}

/**
 * The member of `object` whose key equals `key` in any letter case. Where several do, the last one counts, `null` is passed over, and
 * two objects are merged (recording keys-case).
 *
 * @returns `undefined` when there is none; `null` when nothing but null was given
 */
export function memberOf(object: JsonObject, key: string): JsonValue | undefined {
  const wanted = key.toLowerCase();
  let found: JsonValue | undefined;
  for (const candidate of Object.keys(object)) {
    if (candidate !== key && candidate.toLowerCase() !== wanted) continue;
    const value = object[candidate];
    if (found === undefined || found === null) found = value;
    else if (isJsonObject(found) && isJsonObject(value)) found = merge(found, value);
    else if (value !== null) found = value;
  }
  return found;
}

/**
 * The object with `key` set, in place of every spelling of it, where the first of them stood, or else at the end.
 * @param value `undefined` leaves the key out
 */
export function withMember(object: JsonObject, key: string, value: JsonValue | undefined): JsonObject {
  const wanted = key.toLowerCase();
  const changed: Record<string, JsonValue> = Object.create(null);
  let isSet = value === undefined;
  for (const [candidate, before] of Object.entries(object)) {
    if (candidate.toLowerCase() !== wanted) changed[candidate] = before;
    else if (!isSet && value !== undefined) {
      changed[key] = value;
      isSet = true;
    }
  }
  if (!isSet && value !== undefined) changed[key] = value;
  return changed;
}

/** Both objects' members; under the same key the later one's, or the two merged when both are objects. */
function merge(earlier: JsonObject, later: JsonObject): JsonObject {
  const merged: Record<string, JsonValue> = Object.assign(Object.create(null), earlier);
  for (const [key, value] of Object.entries(later)) {
    const before = merged[key];
    merged[key] = isJsonObject(before) && isJsonObject(value) ? merge(before, value) : value;
  }
  return merged;
}

/** The kind of a value, as messages name it: "a number", "an array". */
export function kindOf(value: JsonValue | undefined): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string" || typeof value === "boolean") return `a ${typeof value}`;
  if (Array.isArray(value)) return "an array";
  return isJsonObject(value) ? "an object" : "a number";
}
