/** JSON of the recordings without loss: a number that JavaScript cannot hold exactly is kept as its text (I§2.4). */

export type Json = null | boolean | number | string | readonly Json[] | JsonRecord;
export interface JsonRecord {
  readonly [key: string]: Json;
}

/** @throws SyntaxError */
export function parseJson(text: string): Json {
  return JSON.parse(text, (_key: string, value: Json, context?: { source?: string }) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source && !Number.isSafeInteger(value)
      ? context.source
      : value,
  );
}

/** The opposite of `parseJson`: texts of so many digits are numbers that were kept as texts. No other text in a recording is one. */
export function printJson(value: Json): string {
  return JSON.stringify(value).replace(/"(-?\d{16,})"/g, "$1");
}

/** The value as JSON, or `undefined` when the text is none. */
export function jsonOrUndefined(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

export function isRecord(value: Json | undefined): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** The members of an object; none of anything else. */
export function recordOf(value: Json | undefined): JsonRecord {
  return isRecord(value) ? value : {};
}

export function listOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** The text of a string; "" of anything else. */
export function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** The members that are strings. */
export function textsOf(value: Json | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(recordOf(value)).flatMap(([key, member]) => (typeof member === "string" ? [[key, member]] : [])),
  );
}

/** The object without the named members. */
export function without(value: JsonRecord, ...keys: readonly string[]): JsonRecord {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.includes(key)));
}

/** Applies `change` to every string of a value, the keys of objects too. `path` names the place, outermost first. */
export function mapTexts(value: Json, change: (text: string, path: readonly string[]) => string, path: readonly string[] = []): Json {
  if (typeof value === "string") return change(value, path);
  if (isList(value)) return value.map((entry, index) => mapTexts(entry, change, [...path, String(index)]));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [change(key, path), mapTexts(member, change, [...path, key])]));
}
