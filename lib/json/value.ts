/**
 * The JSON values Tortie works with: plain JavaScript, except that a number JavaScript cannot hold exactly keeps its text.
 * Block sequence numbers are near 1.8e18 (I§2.4), and a forwarded netconf must not lose a digit (design, corrections). Written as
 * Go's encoding/json does, so that our output equals that of Calico's plugins byte for byte.
 */

/** Keeps a number whose text is not what JavaScript would print for it, for instance an integer beyond 2^53. */
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
 * Finds the member of `object` whose key equals `key` in any letter case. Where several do, the last one counts, `null` is passed over, and
 * two objects are merged (recording keys-case).
 *
 * @returns `undefined` when no key does; `null` when nothing but null was given
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
 * Copies the object with `key` set, in place of every spelling of it, where the first of them stood, or else at the end.
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

/** Joins both objects' members; under the same key the later one's, or the two merged when both are objects. */
function merge(earlier: JsonObject, later: JsonObject): JsonObject {
  const merged: Record<string, JsonValue> = Object.assign(Object.create(null), earlier);
  for (const [key, value] of Object.entries(later)) {
    const before = merged[key];
    merged[key] = isJsonObject(before) && isJsonObject(value) ? merge(before, value) : value;
  }
  return merged;
}

/** Names the kind of a value, as messages name it: "a number", "an array". */
export function kindOf(value: JsonValue | undefined): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (typeof value === "string" || typeof value === "boolean") return `a ${typeof value}`;
  if (Array.isArray(value)) return "an array";
  return isJsonObject(value) ? "an object" : "a number";
}

/** What can be written: JSON values, bigints, and members that are left out when `undefined`. */
export type Writable =
  | null
  | boolean
  | number
  | bigint
  | RawNumber
  | string
  | readonly Writable[]
  | { readonly [key: string]: Writable | undefined };

/**
 * Writes the JSON text of a value. Keys keep their order; strings are escaped as Go's json.Marshal does (`<`, `>`, `&`, U+2028 and U+2029
 * too).
 *
 * @param indent spaces a level; 0 writes no white space at all
 * @throws RangeError for a number that JSON cannot hold (NaN, infinity)
 */
export function stringifyJson(value: Writable, indent = 0): string {
  return write(value, " ".repeat(indent), indent > 0 ? "\n" : "");
}

function write(value: Writable, step: string, newline: string): string {
  if (typeof value === "string") return quote(value);
  if (value instanceof RawNumber) return value.text;
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError(`${value} cannot be written as JSON`);
  if (value === null || typeof value !== "object") return String(value);

  const inner = newline + (newline === "" ? "" : step);
  const parts: string[] = [];
  if (isArray(value)) {
    for (const item of value) parts.push(inner + write(item, step, inner));
    return parts.length === 0 ? "[]" : `[${parts.join(",")}${newline}]`;
  }
  const colon = newline === "" ? ":" : ": ";
  for (const key of Object.keys(value)) {
    const member = value[key];
    if (member !== undefined) parts.push(inner + quote(key) + colon + write(member, step, inner));
  }
  return parts.length === 0 ? "{}" : `{${parts.join(",")}${newline}}`;
}

/** Array.isArray does not narrow readonly arrays. */
function isArray(value: Writable): value is readonly Writable[] {
  return Array.isArray(value);
}

/** Printable ASCII that no rule escapes: nearly every key, name and address. */
const PLAIN = /^[ !#-%'-;=?-[\]-~]*$/;

/** encoding/json, appendString with escapeHTML; what is not Unicode becomes U+FFFD. */
function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text.toWellFormed()).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
