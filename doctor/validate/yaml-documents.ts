/** Reads the documents of a YAML stream as kubectl does, with the place of each key and element. */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type ParsedNode,
  type ParseOptions,
  parseAllDocuments,
  type SchemaOptions,
  type Tags,
  visit,
  type YAMLMap,
  type Document as YamlDocument,
} from "yaml";
import { messageOf } from "../../lib/errors/errors.ts";
import type { Step } from "../../lib/json/position.ts";
import type { Place } from "../../lib/json/syntax-error.ts";
import type { Document, Unreadable } from "./finding.ts";

/** Resolves scalars by YAML 1.1 as kubectl's library (go-yaml) does, save for times of day and dates, which stay text. */
const AS_KUBECTL: SchemaOptions & ParseOptions = {
  schema: "yaml-1.1",
  merge: true,
  customTags: (tags: Tags) => tags.filter((tag) => typeof tag === "string" || (tag.format !== "TIME" && !tag.tag.endsWith(":timestamp"))),
  intAsBigInt: true,
};

type Parsed = YamlDocument.Parsed<ParsedNode>;

/** Documents without content are left out. */
export function yamlDocuments(text: string): readonly (Document | Unreadable)[] {
  const lineCounter = new LineCounter();
  const parsed = parseAllDocuments(text, { ...AS_KUBECTL, lineCounter, prettyErrors: false, logLevel: "silent" });
  const documents = [...parsed].filter((document) => document.errors.length > 0 || !isEmpty(document));
  return documents.map((document, index) => read(document, documents.length === 1 ? undefined : index + 1, lineCounter));
}

function isEmpty({ contents }: Parsed): boolean {
  return contents === null || (isScalar(contents) && contents.value === null && !contents.source);
}

function read(document: Parsed, number: number | undefined, lines: LineCounter): Document | Unreadable {
  const [error] = document.errors;
  if (error !== undefined) return { number, ...placeAt(lines, error.pos[0]), problem: error.message };
  const alias = badAlias(document);
  if (alias !== undefined) return { number, ...placeAt(lines, alias.offset), problem: alias.problem };
  try {
    const value: unknown = document.toJS({ reviver: plainNumber });
    return { value, json: JSON.stringify(value), number, placeOf: (path) => placeAt(lines, offsetOf(document, path)) };
  } catch (cause) {
    // Aliases that multiply.
    return { number, ...placeAt(lines, offsetOf(document, [])), problem: messageOf(cause) };
  }
}

/** Finds the first alias without an anchor, or inside of its own: the library names no place for them. */
function badAlias(document: Parsed): { readonly offset: number; readonly problem: string } | undefined {
  let bad: { readonly offset: number; readonly problem: string } | undefined;
  visit(document, {
    Alias: (_key, alias, ancestors) => {
      const anchored = alias.resolve(document);
      if (anchored !== undefined && !ancestors.includes(anchored)) return undefined;
      const what = anchored === undefined ? "has no anchor before it" : "stands inside of its own anchor";
      bad = { offset: startOf(alias) ?? 0, problem: `the alias *${alias.source} ${what}` };
      return visit.BREAK;
    },
  });
  return bad;
}

/** Keeps sequence numbers of blocks, which are beyond what JavaScript holds, as text; the codecs take them as text too. */
function plainNumber(this: unknown, key: unknown, value: unknown): unknown {
  if (typeof value !== "bigint") return value;
  const isSequenceNumber = !Array.isArray(this) && /^(?:sequenceNumber|\d{1,5})$/.test(String(key));
  return isSequenceNumber && value > BigInt(Number.MAX_SAFE_INTEGER) ? String(value) : Number(value);
}

function placeAt(lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}

/** Finds the place of the longest part of the path that exists: a missing key is reported where it should stand. */
function offsetOf(document: Parsed, path: readonly Step[]): number {
  let node: unknown = document.contents;
  let offset = startOf(node) ?? document.range[0];
  for (const step of path) {
    const found = memberOf(document, node, step);
    if (found === undefined) return offset;
    offset = startOf(found.place) ?? offset;
    node = found.value;
  }
  return offset;
}

/** Has what is named, and the value to go on in. */
interface Found {
  readonly place: unknown;
  readonly value: unknown;
}

function memberOf(document: Parsed, node: unknown, step: Step): Found | undefined {
  const value = isAlias(node) ? node.resolve(document) : node;
  if (isMap(value)) return pairOf(document, value, String(step));
  if (!isSeq(value) || typeof step !== "number" || step >= value.items.length) return undefined;
  const item = value.items[step];
  return { place: item, value: item };
}

/** Finds a key of a map, whose own keys go before those it merges. */
function pairOf(document: Parsed, map: YAMLMap, wanted: string): Found | undefined {
  const own = map.items.find(({ key }) => keyText(document, key) === wanted);
  if (own !== undefined) return { place: own.key, value: own.value };
  for (const { key, value } of map.items) {
    if (keyText(document, key) !== "<<") continue;
    const merged = isAlias(value) ? value.resolve(document) : value;
    for (const source of isSeq(merged) ? merged.items : [merged]) {
      const found = memberOf(document, source, wanted);
      if (found !== undefined) return found;
    }
  }
  return undefined;
}

function keyText(document: Parsed, key: unknown): string | undefined {
  const scalar = isAlias(key) ? key.resolve(document) : key;
  return isScalar(scalar) ? String(typeof scalar.value === "symbol" ? scalar.source : scalar.value) : undefined;
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null)?.range?.[0];
}
