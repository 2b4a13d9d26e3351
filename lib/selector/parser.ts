/**
 * Parses the selector language (I§3.1), whose operators are, loosest first: `||`, `&&`, `!`, then a comparison, a function or parentheses.
 * Comparisons of a label that is missing are false, but for `!=` and `not in`, which are true.
 */
import { TortieError } from "../errors/errors.ts";

type Selector = (labels: Readonly<Record<string, string>>) => boolean;

/** Deeper nesting than any person writes; the bound keeps hostile input off the stack. */
const DEEPEST_NESTING = 100;

/**
 * @returns the selector as a predicate over labels; an empty one selects everything
 * @throws TortieError `selector-syntax`, naming the position
 */
export function parseSelector(text: string): Selector {
  return new Parser(text).parse();
}

class Parser {
  readonly #text: string;
  readonly #tokens: readonly Token[];
  #next = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
    this.#tokens = tokenize(text);
  }

  parse(): Selector {
    if (this.#peek().kind === "end") return () => true;
    const selector = this.#or();
    this.#expect("end", "expected an operator or the end");
    return selector;
  }

  #or(): Selector {
    const alternatives = [this.#and()];
    while (this.#take("||") !== undefined) alternatives.push(this.#and());
    return (labels) => alternatives.some((alternative) => alternative(labels));
  }

  #and(): Selector {
    const conditions = [this.#unary()];
    while (this.#take("&&") !== undefined) conditions.push(this.#unary());
    return (labels) => conditions.every((condition) => condition(labels));
  }

  #unary(): Selector {
    let isNegated = false;
    while (this.#take("!") !== undefined) isNegated = !isNegated;
    const selector = this.#primary();
    return isNegated ? (labels) => !selector(labels) : selector;
  }

  #primary(): Selector {
    if (this.#take("(") !== undefined) {
      if (++this.#depth > DEEPEST_NESTING) throw this.#error(`nested deeper than ${DEEPEST_NESTING} parentheses`);
      const inner = this.#or();
      this.#expect(")", "expected )");
      this.#depth--;
      return inner;
    }
    const name = this.#expect("identifier", "expected a label name, a function or (").text;
    if (this.#take("(") !== undefined) return this.#function(name);
    return this.#comparison(name);
  }

  #function(name: string): Selector {
    if (name === "has") {
      const label = this.#expect("identifier", "expected a label name").text;
      this.#expect(")", "expected )");
      return (labels) => label in labels && Object.hasOwn(labels, label);
    }
    if (name !== "all" && name !== "global") throw this.#error(`unknown function ${name}()`, 2);
    this.#expect(")", "expected )");
    return () => true;
  }

  #comparison(label: string): Selector {
    const operator = this.#peek();
    this.#next++;
    switch (operator.kind) {
      case "==":
        return compare(label, this.#string(), (value, wanted) => value === wanted);
      case "!=":
        return not(compare(label, this.#string(), (value, unwanted) => value === unwanted));
      case "contains":
        return compare(label, this.#string(), (value, part) => value.includes(part));
      case "starts with":
        return compare(label, this.#string(), (value, start) => value.startsWith(start));
      case "ends with":
        return compare(label, this.#string(), (value, end) => value.endsWith(end));
      case "in":
        return isIn(label, this.#set());
      case "not in":
        return not(isIn(label, this.#set()));
      default:
        throw this.#error("expected an operator", 1);
    }
  }

  #string(): string {
    return this.#expect("string", "expected string").text;
  }

  /** Empty sets and a comma after the last string are fine. */
  #set(): ReadonlySet<string> {
    this.#expect("{", "expected set literal");
    const strings = new Set<string>();
    for (let string = this.#take("string"); string !== undefined; string = this.#take("string")) {
      strings.add(string.text);
      if (this.#take(",") === undefined) break;
    }
    this.#expect("}", "expected }");
    return strings;
  }

  #peek(): Token {
    return this.#tokens[this.#next] ?? { kind: "end", text: "", position: this.#text.length };
  }

  #take(kind: TokenKind): Token | undefined {
    const token = this.#peek();
    if (token.kind !== kind) return undefined;
    this.#next++;
    return token;
  }

  #expect(kind: TokenKind, problem: string): Token {
    const token = this.#take(kind);
    if (token === undefined) throw this.#error(problem);
    return token;
  }

  /** @param back how many tokens before the next one the problem stands */
  #error(problem: string, back = 0): Error {
    const token = this.#tokens[Math.max(0, this.#next - back)] ?? this.#peek();
    return syntaxError(this.#text, token.position, problem);
  }
}

function compare(label: string, operand: string, test: (value: string, operand: string) => boolean): Selector {
  return (labels) => {
    const value = labelValue(labels, label);
    return value !== undefined && test(value, operand);
  };
}

function isIn(label: string, set: ReadonlySet<string>): Selector {
  return (labels) => {
    const value = labelValue(labels, label);
    return value !== undefined && set.has(value);
  };
}

function not(selector: Selector): Selector {
  return (labels) => !selector(labels);
}

function labelValue(labels: Readonly<Record<string, string>>, label: string): string | undefined {
  return Object.hasOwn(labels, label) ? labels[label] : undefined;
}

/** Tried in this order at each place. */
const SYMBOLS = ["==", "!=", "&&", "||", "!", "(", ")", "{", "}", ","] as const;

/** Operators that are words: they count only where an operator may stand, so a label may bear their name. */
const WORD_OPERATORS = [
  [/in(?![A-Za-z0-9_./-])/y, "in"],
  [/not\s*in(?![A-Za-z0-9_./-])/y, "not in"],
  [/contains(?![A-Za-z0-9_./-])/y, "contains"],
  [/starts\s*with(?![A-Za-z0-9_./-])/y, "starts with"],
  [/ends\s*with(?![A-Za-z0-9_./-])/y, "ends with"],
] as const;

type TokenKind = "identifier" | "string" | (typeof SYMBOLS)[number] | (typeof WORD_OPERATORS)[number][1] | "end";

/** A word of the selector language (I§3.1) with its place in the text, so that an error can point at it. */
interface Token {
  readonly kind: TokenKind;
  /** Content of a string, name of an identifier, otherwise the text as it stands. */
  readonly text: string;
  /** Offset into the selector, from 0. */
  readonly position: number;
}

/** The longest label key that Calico's language takes (I§3.1). */
const LONGEST_IDENTIFIER = 512;

/**
 * Cuts a selector into tokens; the last is always `end`.
 * @throws TortieError `selector-syntax`
 */
function tokenize(selector: string): readonly Token[] {
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
  for (const [pattern, kind] of previous === "identifier" ? WORD_OPERATORS : []) {
    const text = match(pattern, selector, position);
    if (text !== undefined) return { token: { kind, text, position }, next: position + text.length };
  }
  const symbol = SYMBOLS.find((text) => selector.startsWith(text, position));
  if (symbol !== undefined) return { token: { kind: symbol, text: symbol, position }, next: position + symbol.length };
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

/** Makes the error of a selector, pointing at a place in it. */
function syntaxError(selector: string, position: number, problem: string): TortieError {
  return new TortieError("selector-syntax", `selector "${selector}", position ${position + 1}: ${problem}`);
}

function skipBlanks(text: string, position: number): number {
  return position + (match(/\s*/y, text, position)?.length ?? 0);
}

function match(pattern: RegExp, text: string, position: number): string | undefined {
  pattern.lastIndex = position;
  return pattern.exec(text)?.[0];
}
