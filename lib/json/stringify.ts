/** Values to JSON text, as Go's encoding/json writes it, so that our output equals that of Calico's plugins byte for byte. */
import { RawNumber } from "./value.ts";

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
 * The JSON text of a value. Keys keep their order; strings are escaped as Go's json.Marshal does (`<`, `>`, `&`, U+2028 and U+2029 too).
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
