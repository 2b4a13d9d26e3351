/** Says what is wrong with a JSON text, in the words of Go's encoding/json, which operators of Calico know and search for. */

/** Where something stands in a text. */
export interface Place {
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in UTF-16 units. */
  readonly column: number;
}

export function placeOf(text: string, offset: number): Place {
  const lineStart = offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1;
  return { line: countLines(text, lineStart), column: offset - lineStart + 1 };
}

/** Says why a text is not JSON, and where. */
export class JsonSyntaxError extends Error {
  /** UTF-16 units before the offending character. */
  readonly offset: number;
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in UTF-16 units. */
  readonly column: number;

  constructor(problem: string, text: string, offset: number) {
    const { line, column } = placeOf(text, offset);
    super(`${problem} (line ${line}, column ${column})`);
    this.name = "JsonSyntaxError";
    this.offset = offset;
    this.line = line;
    this.column = column;
  }
}

/** Makes the error for the character at `offset`, or for the text ending there. */
export function unexpected(text: string, offset: number, context: string): JsonSyntaxError {
  if (offset >= text.length) return new JsonSyntaxError("unexpected end of JSON input", text, offset);
  return new JsonSyntaxError(`invalid character ${quoteCharacter(text, offset)} ${context}`, text, offset);
}

function countLines(text: string, end: number): number {
  let line = 1;
  for (let i = text.indexOf("\n"); i >= 0 && i < end; i = text.indexOf("\n", i + 1)) line++;
  return line;
}

/** Quotes the character between single quotes; one beyond ASCII as Go shows it: the first of its UTF-8 bytes (recording conf-trailing). */
function quoteCharacter(text: string, offset: number): string {
  const code = text.codePointAt(offset) ?? 0;
  if (code === 0x27) return "'\\''";
  if (code === 0x22) return "'\"'";
  if (code > 0x7f) return `'${String.fromCharCode(firstUtf8Byte(code))}'`;
  return `'${JSON.stringify(String.fromCharCode(code)).slice(1, -1)}'`;
}

function firstUtf8Byte(code: number): number {
  if (code < 0x800) return 0xc0 | (code >> 6);
  if (code < 0x10000) return 0xe0 | (code >> 12);
  return 0xf0 | (code >> 18);
}
