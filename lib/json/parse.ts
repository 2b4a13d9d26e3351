/**
 * JSON text to values, as strict as Go's encoding/json, because Calico's plugins and every Go runtime read the same texts (C§1.1):
 * no byte order mark, no trailing text, no control characters in strings. Differences to JSON.parse: numbers keep their digits
 * (value.ts), a repeated object key merges objects, and depth is limited without using the stack.
 */
import { scanNumber, scanString } from "./scan.ts";
import { JsonSyntaxError, unexpected } from "./syntax-error.ts";
import { isJsonObject, type JsonValue, type RawNumber } from "./value.ts";

/** The depth that Go allows (encoding/json/scanner.go, maxNestingDepth). */
const MAX_DEPTH = 10_000;

type MutableObject = Record<string, JsonValue>;

/** A container whose end has not been read yet. */
type Open = { readonly object: MutableObject; key: string } | { readonly array: JsonValue[] };

/**
 * Parses one JSON text. Bytes that are not UTF-8 become U+FFFD. Of a repeated key the last value counts, but two objects are merged
 * member by member (recordings stdin-duplicate, keys-case).
 *
 * @throws JsonSyntaxError with Go's wording, line, column and offset
 */
export function parseJson(input: Uint8Array | string): JsonValue {
  const text = typeof input === "string" ? input : new TextDecoder("utf-8", { ignoreBOM: true }).decode(input);
  const open: Open[] = [];
  let at = skipSpace(text, 0);

  for (;;) {
    // Here a value begins.
    let value: JsonValue;
    const character = text[at];
    if (character === "{" || character === "[") {
      if (open.length >= MAX_DEPTH) throw new JsonSyntaxError("exceeded max depth", text, at);
      const inner = skipSpace(text, at + 1);
      if (character === "[") {
        const array: JsonValue[] = [];
        if (text[inner] !== "]") {
          open.push({ array });
          at = inner;
          continue;
        }
        value = array;
      } else {
        const object = objectToFill(open.at(-1));
        if (text[inner] !== "}") {
          const key = scanKey(text, inner);
          open.push({ object, key: key.value });
          at = key.end;
          continue;
        }
        value = object;
      }
      at = inner + 1;
    } else {
      const scalar = scanScalar(text, at);
      value = scalar.value;
      at = scalar.end;
    }

    // Here a value is complete: it goes into its container, and so do the containers that end behind it.
    for (;;) {
      const container = open.at(-1);
      at = skipSpace(text, at);
      if (container === undefined) {
        if (at < text.length) throw unexpected(text, at, "after top-level value");
        return value;
      }
      const isArray = "array" in container;
      if (isArray) container.array.push(value);
      else container.object[container.key] = value;

      if (text[at] === ",") {
        at = skipSpace(text, at + 1);
        if (!isArray) {
          const key = scanKey(text, at);
          container.key = key.value;
          at = key.end;
        }
        break;
      }
      if (text[at] !== (isArray ? "]" : "}")) throw unexpected(text, at, isArray ? "after array element" : "after object key:value pair");
      at++;
      value = isArray ? container.array : container.object;
      open.pop();
    }
  }
}

/** The object that an opening brace fills: the one already under the same key, else a new one. */
function objectToFill(container: Open | undefined): MutableObject {
  if (container !== undefined && "object" in container) {
    const before = container.object[container.key];
    if (isJsonObject(before)) return before;
  }
  return Object.create(null);
}

/** A key with its colon; `end` is where the value begins. */
function scanKey(text: string, start: number): { value: string; end: number } {
  if (text[start] !== '"') throw unexpected(text, start, "looking for beginning of object key string");
  const key = scanString(text, start);
  const colon = skipSpace(text, key.end);
  if (text[colon] !== ":") throw unexpected(text, colon, "after object key");
  return { value: key.value, end: skipSpace(text, colon + 1) };
}

const WORDS = { t: ["true", true], f: ["false", false], n: ["null", null] } as const;

function scanScalar(text: string, start: number): { value: string | number | RawNumber | boolean | null; end: number } {
  const character = text[start];
  if (character === '"') return scanString(text, start);
  if (character === "t" || character === "f" || character === "n") {
    const [word, value] = WORDS[character];
    for (let i = 1; i < word.length; i++) {
      if (text[start + i] !== word[i]) throw unexpected(text, start + i, `in literal ${word} (expecting '${word[i]}')`);
    }
    return { value, end: start + word.length };
  }
  if (character === "-" || (character !== undefined && character >= "0" && character <= "9")) return scanNumber(text, start);
  throw unexpected(text, start, "looking for beginning of value");
}

/** Space, tab, line feed, carriage return; nothing else is white space to JSON. */
export function skipSpace(text: string, start: number): number {
  let i = start;
  for (;;) {
    const code = text.charCodeAt(i);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return i;
    i++;
  }
}
