/** Words of the selector language (I§3.1), each with its place in the text, so that an error can point at it. */
import { TortieError } from "../errors/errors.ts";

export type TokenKind =
  | "identifier"
  | "string"
  | "=="
  | "!="
  | "in"
  | "not in"
  | "contains"
  | "starts with"
  | "ends with"
  | "!"
  | "&&"
  | "||"
  | "("
  | ")"
  | "{"
  | "}"
  | ","
  | "end";

export interface Token {
  readonly kind: TokenKind;
  /** Content of a string, name of an identifier, otherwise the text as it stands. */
  readonly text: string;
  /** Offset into the selector, from 0. */
  readonly position: number;
}

/** The longest label key that Calico's language takes (I§3.1). */
const LONGEST_IDENTIFIER = 512;

/** Tried in this order at each place; `undefined` means that the word is its own kind. */
const RULES: readonly (readonly [RegExp, TokenKind])[] = [
  [/==/y, "=="],
  [/!=/y, "!="],
  [/&&/y, "&&"],
  [/\|\|/y, "||"],
  [/!/y, "!"],
  [/\(/y, "("],
  [/\)/y, ")"],
  [/\{/y, "{"],
  [/\}/y, "}"],
  [/,/y, ","],
];

/** Operators that are words: they count only where an operator may stand, so a label may bear their name. */
const WORD_OPERATORS: readonly (readonly [RegExp, TokenKind])[] = [
  [/in(?![A-Za-z0-9_./-])/y, "in"],
  [/not\s*in(?![A-Za-z0-9_./-])/y, "not in"],
  [/contains(?![A-Za-z0-9_./-])/y, "contains"],
  [/starts\s*with(?![A-Za-z0-9_./-])/y, "starts with"],
  [/ends\s*with(?![A-Za-z0-9_./-])/y, "ends with"],
];

/**
 * Cuts a selector into tokens; the last is always `end`.
 * @throws TortieError `selector-syntax`
 */
export function tokenize(selector: string): readonly Token[] {
  const tokens: Token[] = [];
  let position = skipBlanks(selector, 0);
  while (position < selector.length) {
    const token = tokenAt(selector, position, tokens.at(-1)?.kind);
    tokens.push(token.token);
    position = skipBlanks(selector, token.next);
  }
  tokens.push({ kind: "end", text: "", position: selector.length });
  return tokens;
}

function tokenAt(selector: string, position: number, previous: TokenKind | undefined): { token: Token; next: number } {
  for (const [pattern, kind] of previous === "identifier" ? [...WORD_OPERATORS, ...RULES] : RULES) {
    const text = match(pattern, selector, position);
    if (text !== undefined) return { token: { kind, text, position }, next: position + text.length };
  }
  const quote = selector.charAt(position);
  if (quote === "'" || quote === '"') {
    const close = selector.indexOf(quote, position + 1);
    if (close < 0) throw syntaxError(selector, position, "unterminated string");
    return { token: { kind: "string", text: selector.slice(position + 1, close), position }, next: close + 1 };
  }
  const name = match(/[A-Za-z0-9_./-]+/y, selector, position);
  if (name === undefined) throw syntaxError(selector, position, `unexpected character "${quote}"`);
  if (name.length > LONGEST_IDENTIFIER) throw syntaxError(selector, position, `name longer than ${LONGEST_IDENTIFIER} characters`);
  return { token: { kind: "identifier", text: name, position }, next: position + name.length };
}

/** The error of a selector, pointing at a place in it. */
export function syntaxError(selector: string, position: number, problem: string): TortieError {
  return new TortieError("selector-syntax", `selector "${selector}", position ${position + 1}: ${problem}`);
}

function skipBlanks(text: string, position: number): number {
  return position + (match(/\s*/y, text, position)?.length ?? 0);
}

function match(pattern: RegExp, text: string, position: number): string | undefined {
  pattern.lastIndex = position;
  return pattern.exec(text)?.[0];
}
