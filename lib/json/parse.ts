/**
 * Parses JSON text, as strict as Go's encoding/json, because Calico's plugins and every Go runtime read the same texts (C§1.1):
 * no byte order mark, no trailing text, no control characters in strings. Differences to JSON.parse: numbers keep their digits
 * (value.ts), a repeated object key merges objects, and depth is limited without using the stack.
 */
import { JsonSyntaxError, unexpected } from "./syntax-error.ts";
import { isJsonObject, type JsonValue, RawNumber } from "./value.ts";

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
  const reading = new Reading(text);
  for (;;) {
    const value = reading.begin();
    const whole = value === undefined ? undefined : reading.complete(value);
    if (whole !== undefined) return whole;
  }
}

/** Knows how far a text has been read. */
class Reading {
  readonly #text: string;
  readonly #open: Open[] = [];
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = skipSpace(text, 0);
  }

  /** Reads what begins here. @returns a complete value; `undefined`: a container was opened, and its first value begins here now */
  begin(): JsonValue | undefined {
    const text = this.#text;
    const character = text[this.#at];
    if (character !== "{" && character !== "[") {
      const { value, end } = scanScalar(text, this.#at);
      this.#at = end;
      return value;
    }
    if (this.#open.length >= MAX_DEPTH) throw new JsonSyntaxError("exceeded max depth", text, this.#at);
    const isArray = character === "[";
    const container: JsonValue[] | MutableObject = isArray ? [] : objectToFill(this.#open.at(-1));
    this.#at = skipSpace(text, this.#at + 1);
    if (text[this.#at] === (isArray ? "]" : "}")) {
      this.#at++;
      return container;
    }
    this.#open.push(Array.isArray(container) ? { array: container } : { object: container, key: this.#key() });
    return undefined;
  }

  /**
   * Puts a value into its container, and so the containers that end behind it.
   * @returns the whole when the text is over; `undefined`: another value begins here now
   */
  complete(complete: JsonValue): JsonValue | undefined {
    const text = this.#text;
    for (let value = complete; ; ) {
      const container = this.#open.at(-1);
      this.#at = skipSpace(text, this.#at);
      if (container === undefined) {
        if (this.#at < text.length) throw unexpected(text, this.#at, "after top-level value");
        return value;
      }
      const isArray = "array" in container;
      if (isArray) container.array.push(value);
      else container.object[container.key] = value;

      if (text[this.#at] === ",") {
        this.#at = skipSpace(text, this.#at + 1);
        if (!isArray) container.key = this.#key();
        return undefined;
      }
      if (text[this.#at] !== (isArray ? "]" : "}")) {
        throw unexpected(text, this.#at, isArray ? "after array element" : "after object key:value pair");
      }
      this.#at++;
      value = isArray ? container.array : container.object;
      this.#open.pop();
    }
  }

  /** Reads a key with its colon, up to where its value begins. */
  #key(): string {
    const text = this.#text;
    if (text[this.#at] !== '"') throw unexpected(text, this.#at, "looking for beginning of object key string");
    const key = scanString(text, this.#at);
    const colon = skipSpace(text, key.end);
    if (text[colon] !== ":") throw unexpected(text, colon, "after object key");
    this.#at = skipSpace(text, colon + 1);
    return key.value;
  }
}

/** Finds the object that an opening brace fills: the one already under the same key, else a new one. */
function objectToFill(container: Open | undefined): MutableObject {
  if (container !== undefined && "object" in container) {
    const before = container.object[container.key];
    if (isJsonObject(before)) return before;
  }
  return Object.create(null);
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

/** Skips space, tab, line feed, carriage return; nothing else is white space to JSON. */
export function skipSpace(text: string, start: number): number {
  let i = start;
  for (;;) {
    const code = text.charCodeAt(i);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return i;
    i++;
  }
}

/**
 * The two tokens of JSON that need looking into: strings and numbers. Both functions are given the place of the token's first character.
 */
interface Token<T> {
  readonly value: T;
  /** Offset of the first character behind the token. */
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;

/** The characters that may follow a backslash, besides "u" (RFC 8259, section 7). */
const ESCAPED = '"\\/bfnrt';

/**
 * Reads the string whose opening quote stands at `start`. Half a surrogate pair, written as an escape, becomes U+FFFD as in Go.
 * @throws JsonSyntaxError
 */
export function scanString(text: string, start: number): Token<string> {
  let hasEscapes = false;
  for (let i = start + 1; ; i++) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      // The runtime's own parser is quicker at putting together what was found correct here.
      const value = hasEscapes ? String(JSON.parse(text.slice(start, i + 1))).toWellFormed() : text.slice(start + 1, i);
      return { value, end: i + 1 };
    }
    if (code === BACKSLASH) {
      hasEscapes = true;
      i = skipEscape(text, i);
    } else if (!(code >= SPACE)) {
      // NaN, the code behind the end, lands here too.
      throw unexpected(text, i, "in string literal");
    }
  }
}

/** Finds the last character of the escape that begins at `start`. */
function skipEscape(text: string, start: number): number {
  const escaped = text[start + 1];
  if (escaped !== "u") {
    if (escaped === undefined || !ESCAPED.includes(escaped)) throw unexpected(text, start + 1, "in string escape code");
    return start + 1;
  }
  for (let i = start + 2; i < start + 6; i++) {
    if (!isHexDigit(text.charCodeAt(i))) throw unexpected(text, i, "in \\u hexadecimal character escape");
  }
  return start + 5;
}

function isHexDigit(code: number): boolean {
  return isDigit(code) || (code >= 0x41 && code <= 0x46) || (code >= 0x61 && code <= 0x66);
}

/** So many decimal digits always fit a double exactly. */
const SAFE_DIGITS = 15;

const MINUS = 0x2d;
const ZERO = 0x30;

/**
 * Reads the number that begins at `start`: a `RawNumber` when JavaScript would print another text for it.
 * @throws JsonSyntaxError
 */
function scanNumber(text: string, start: number): Token<number | RawNumber> {
  const first = text.charCodeAt(start) === MINUS ? start + 1 : start;
  let end = first + 1;
  if (text.charCodeAt(first) !== ZERO) end = scanDigits(text, first, "in numeric literal");
  const integerEnd = end;
  if (text[end] === ".") end = scanDigits(text, end + 1, "after decimal point in numeric literal");
  if (text[end] === "e" || text[end] === "E") {
    end++;
    if (text[end] === "+" || text[end] === "-") end++;
    end = scanDigits(text, end, "in exponent of numeric literal");
  }
  const literal = text.slice(start, end);
  const value = Number(literal);
  const isShortInteger = end === integerEnd && end - first <= SAFE_DIGITS && literal !== "-0";
  return { value: isShortInteger || String(value) === literal ? value : new RawNumber(literal), end };
}

/** Skips one digit or more. */
function scanDigits(text: string, start: number, context: string): number {
  let end = start;
  while (isDigit(text.charCodeAt(end))) end++;
  if (end === start) throw unexpected(text, start, context);
  return end;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= 0x39;
}
