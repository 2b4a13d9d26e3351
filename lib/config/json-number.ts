/** Integers of a configuration, and how a value of the wrong type is named in a message. */
import { isJsonObject, type JsonValue, RawNumber } from "../json/value.ts";

export const MIN_INT64 = -(2n ** 63n);
export const MAX_INT64 = 2n ** 63n - 1n;
export const MAX_UINT64 = 2n ** 64n - 1n;

/** Longest part of a wrong value that a message repeats. */
const MAX_SHOWN_CHARACTERS = 60;

/**
 * The integer that a JSON number writes out: digits only, no fraction, no exponent, as Go's strconv takes it (recording type-num_queues).
 * @returns `undefined` for anything else and outside of the range
 */
export function integerOf(value: JsonValue, min: bigint, max: bigint): number | undefined {
  if (typeof value !== "number" && !(value instanceof RawNumber)) return undefined;
  const written = numberText(value);
  if (!/^-?\d+$/.test(written)) return undefined;
  const exact = BigInt(written);
  return exact >= min && exact <= max ? Number(exact) : undefined;
}

/** "the string \"x\"", "the number 1.5", "a list". A hidden value is named by its kind only. */
export function describeValue(value: JsonValue, hidden = false): string {
  if (value === null) return "null";
  if (typeof value === "number" || value instanceof RawNumber) return hidden ? "a number" : `the number ${shorten(numberText(value))}`;
  if (typeof value === "boolean") return `the boolean ${value}`;
  if (typeof value === "string") return hidden ? "a string" : `the string ${JSON.stringify(shorten(value))}`;
  return isJsonObject(value) ? "an object" : "a list";
}

function numberText(value: number | RawNumber): string {
  return typeof value === "number" ? String(value) : value.text;
}

function shorten(words: string): string {
  return words.length <= MAX_SHOWN_CHARACTERS ? words : `${words.slice(0, MAX_SHOWN_CHARACTERS)}…`;
}
