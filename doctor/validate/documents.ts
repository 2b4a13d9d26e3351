/** The documents of a file: one JSON text, or any number of YAML documents. */
import { messageOf } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { positionOf, type Step } from "../../lib/json/position.ts";
import { JsonSyntaxError, type Place } from "../../lib/json/syntax-error.ts";

export interface Document {
  /** Plain JavaScript values, as JSON.parse gives them. */
  readonly value: unknown;
  /** JSON text of the value; that of the file itself where the file is JSON. */
  readonly json: string;
  /** Counted from 1; `undefined` where it is the only one. */
  readonly number: number | undefined;
  /** Where a path of the value stands. */
  placeOf(path: readonly Step[]): Partial<Place>;
}

/** Why a text holds no document. */
export interface Unreadable extends Partial<Place> {
  readonly number: number | undefined;
  readonly problem: string;
}

/** Nothing of a file may be left out silently: what cannot be parsed is in the answer as well. */
export async function documentsOf(file: string, text: string): Promise<readonly (Document | Unreadable)[]> {
  if (isJson(file, text)) return [jsonDocument(text)];
  // Its library is large, and most files are JSON.
  const { yamlDocuments } = await import("./yaml-documents.ts");
  return yamlDocuments(text);
}

/** Runtimes read these names as JSON and nothing else. Elsewhere the first character tells. */
function isJson(file: string, text: string): boolean {
  if (/\.(conf|conflist|json)$/.test(file)) return true;
  return !/\.ya?ml$/.test(file) && /^\s*[{[]/.test(text);
}

function jsonDocument(text: string): Document | Unreadable {
  try {
    // The stricter of the two, with the plugins' own words; JSON.parse then keeps the digits that codecs need as text.
    parseJson(text);
    return { value: JSON.parse(quoteLongNumbers(text)), json: text, number: undefined, placeOf: (path) => nearestPlace(text, path) };
  } catch (error) {
    const { line, column } = error instanceof JsonSyntaxError ? error : {};
    return { number: undefined, problem: messageOf(error), ...(line && { line }), ...(column && { column }) };
  }
}

/** The place of the longest part of the path that exists: a missing key is reported where it should stand. */
function nearestPlace(text: string, path: readonly Step[]): Partial<Place> {
  for (let length = path.length; length >= 0; length--) {
    const place = positionOf(text, path.slice(0, length));
    if (place !== undefined) return place;
  }
  return {};
}

/** Sequence numbers of blocks are beyond what JavaScript holds; the codecs take them as text too. */
const LONG_NUMBER = /("(?:sequenceNumber|\d{1,5})":\s*)(\d{16,})(?=\s*(?:[,}]|$))/g;

function quoteLongNumbers(text: string): string {
  return text.replace(LONG_NUMBER, '$1"$2"');
}

export function isReadable(document: Document | Unreadable): document is Document {
  return "json" in document;
}
