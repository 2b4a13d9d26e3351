import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject, type JsonObject } from "../../lib/json/value.ts";

/** The object of a text, its numbers with all their digits. */
export function jsonObject(text: string): JsonObject {
  const value = parseJson(text);
  if (!isJsonObject(value)) throw new Error(`no object: ${text}`);
  return value;
}
