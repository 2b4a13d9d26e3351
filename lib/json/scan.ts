/**
 * The two tokens of JSON that need looking into: strings and numbers. Both functions are given the place of the token's first character.
 */
import { unexpected } from "./syntax-error.ts";
import { RawNumber } from "./value.ts";

export interface Token<T> {
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
 * The string whose opening quote stands at `start`. Half a surrogate pair, written as an escape, becomes U+FFFD as in Go.
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

/** Offset of the last character of the escape that begins at `start`. */
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
 * The number that begins at `start`: a `RawNumber` when JavaScript would print another text for it.
 * @throws JsonSyntaxError
 */
export function scanNumber(text: string, start: number): Token<number | RawNumber> {
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
