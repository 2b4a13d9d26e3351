/** Writes each event as one line: `<time> <level> <message> key=value …`, values quoted where they could be misread. */

import { messageOf } from "../errors/errors.ts";

export type LogFields = Readonly<Record<string, unknown>>;

/** Words in the names of fields whose values are never logged. */
const SECRET_WORDS = ["token", "password", "secret", "authorization", "credential"];

const HIDDEN = "[hidden]";

export function formatLine(time: Date, level: string, message: string, identity: string, fields: LogFields): string {
  const rest = formatFields(fields);
  const head = `${time.toISOString()} ${level} ${isPlainMessage(message) ? message : quote(message)}`;
  return [head, identity, rest].filter((part) => part !== "").join(" ");
}

/** Writes `a=1 b="two words"`; empty and undefined fields are left out. */
export function formatFields(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${isSecret(name) ? HIDDEN : quoteUnlessPlain(textOf(value))}`)
    .join(" ");
}

function isSecret(name: string): boolean {
  const lowerCase = name.toLowerCase();
  return SECRET_WORDS.some((word) => lowerCase.includes(word));
}

/** Writes the text of an error with its causes; JSON of any other object; a number with at most three decimals. */
function textOf(value: unknown): string {
  if (value instanceof Error) return value.cause === undefined ? messageOf(value) : withCause(value.message, textOf(value.cause));
  if (typeof value === "number") return String(Number(value.toFixed(3)));
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value); // a cycle, or a bigint inside
  }
}

/** A cause whose last words end the message already would only say it twice: "statfs /x: no such file" in "failed to Statfs /x: no such file". */
function withCause(message: string, cause: string): string {
  return message.endsWith(cause.slice(cause.lastIndexOf(": ") + 1).trim()) ? message : `${message}: ${cause}`;
}

function isPlainMessage(text: string): boolean {
  return /^[^"\\\p{Cc}\u2028\u2029]*$/u.test(text);
}

function quoteUnlessPlain(value: string): string {
  return /^[^\s"=\\\p{Cc}]+$/u.test(value) ? value : quote(value);
}

/** No value can begin a line of its own, or speak to the terminal that shows the log. */
function quote(text: string): string {
  return escapeControls(JSON.stringify(text));
}

/**
 * Control characters (C0, DEL, and C1, of which U+009B begins terminal sequences and U+0085 a line) and the two separators that some
 * programs take for line ends.
 */
const CONTROL = /[\p{Cc}\u2028\u2029]/gu;

/** Writes each as JSON would, "\u009b". */
function escapeControls(text: string): string {
  return text.replace(CONTROL, escaped);
}

/** Does the same, but keeps the line ends and tabs of a message that has several lines. */
export function escapeControlsInLines(text: string): string {
  return text.replace(CONTROL, (character) => (character === "\n" || character === "\t" ? character : escaped(character)));
}

/** Cuts a text from outside to at most this much, for one line of a message; what is left out is marked. */
export function excerpt(text: string, longest: number): string {
  // One character more than fits, so that a cut is seen: escapes only make it longer.
  const line = escapeControls(text.slice(0, longest + 1));
  return line.length <= longest ? line : `${line.slice(0, longest)}…`;
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
