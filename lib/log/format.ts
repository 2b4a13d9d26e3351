/** One event, one line: `<time> <level> <message> key=value …`, values quoted where they could be misread. */
import { messageOf } from "../errors.ts";

export type LogFields = Readonly<Record<string, unknown>>;

/** Names of fields whose value is nobody's business, in case one is ever logged. */
const SECRET_NAME = /token|password|secret|authorization|credential/i;

/** A bearer token inside some other text. */
const BEARER = /\b(Bearer|Basic) [A-Za-z0-9._~+/=-]{12,}/gi;

const HIDDEN = "[hidden]";

export function formatLine(time: Date, level: string, message: string, identity: string, fields: LogFields): string {
  const rest = formatFields(fields);
  const head = `${time.toISOString()} ${level} ${quoteUnlessPlain(message, /^[^"\\\p{Cc}\u2028\u2029]*$/u)}`;
  return [head, identity, rest].filter((part) => part !== "").join(" ");
}

/** `a=1 b="two words"`; empty and undefined fields are left out. */
export function formatFields(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${SECRET_NAME.test(name) ? HIDDEN : quoteUnlessPlain(textOf(value), /^[^\s"=\\\p{Cc}]+$/u)}`)
    .join(" ");
}

/** Takes known secrets and bearer tokens out. */
export function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((rest, secret) => rest.replaceAll(secret, HIDDEN), text).replaceAll(BEARER, `$1 ${HIDDEN}`);
}

/** Text of an error with its causes; JSON of any other object. */
function textOf(value: unknown): string {
  if (value instanceof Error) return value.cause === undefined ? messageOf(value) : `${value.message}: ${textOf(value.cause)}`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value); // a cycle, or a bigint inside
  }
}

/** JSON keeps control characters out, so that no value can begin a line of its own. */
function quoteUnlessPlain(text: string, plain: RegExp): string {
  return plain.test(text)
    ? text
    : JSON.stringify(text).replaceAll("\u007f", "\\u007f").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
}
