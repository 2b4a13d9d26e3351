/**
 * Hides what a bug report must not hold: by its name, by its form, and whatever is the same as a secret of this host. It rather hides too
 * much. Pure.
 */
import { isObject } from "../../lib/json/decode.ts";
import type { Secrets } from "../../lib/log/secrets.ts";

export const HIDDEN = "[hidden]";

/** Names whose values nobody may see. */
const SECRET_NAME =
  /token|passw(?:or)?d|passphrase|secret|api[-_]?key|private[-_]?key|credential|authorization|cookie|[-_]key$|[-_]data$|last-applied-configuration/i;
/** Names of where a secret is, which says nothing of it. */
const PLACE_NAME = /(?:name|ref|file|path|dir|namespace|audience|kind|type|seconds)$/i;

/** Tells whether a value of this name is a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PLACE_NAME.test(name);
}

/** Forms of secrets in any text: what is found, and what stands in its place. */
const FORMS: readonly (readonly [rule: string, form: RegExp, shown: string])[] = [
  // Whole, or cut off at its end.
  ["private key", /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=-----BEGIN)|$(?![\s\S]))/g, HIDDEN],
  // "-----BEGIN" in base64.
  ["private key", /LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]*/g, HIDDEN],
  ["token", /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?/g, HIDDEN],
  // "eyJ" in base64.
  ["token", /\bZXlK[A-Za-z0-9+/=_-]{40,}/g, HIDDEN],
  ["token", /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g, HIDDEN],
  // The address of the page of `tortiectl ui`, which ends with its server.
  ["token", /(\bhttps?:\/\/127\.0\.0\.1:\d{1,5}\/)[A-Za-z0-9_-]{32}(?![A-Za-z0-9_-])/g, `$1${HIDDEN}`],
  ["token", /\b(Bearer|Basic) [A-Za-z0-9._~+/=-]{6,}/gi, `$1 ${HIDDEN}`],
  ["password", /\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@"'<>]+@/gi, `$1${HIDDEN}@`],
  [
    "value by its name",
    /((?:[\w.-]{0,40}(?:token|passw(?:or)?d|passphrase|secret|api[-_]?key|private[-_]?key|credential|authorization|cookie)|[\w-]{1,40}[-_]data|\b[\w-]{1,40}[-_]key)\\?["']?\s*[:=]\s*)(?!\\?["']?\[hidden\]|(?:true|false|null)\b)(?:(\\?")(?:[^"\\]|\\(?!").)*\\?"|(')[^']*'|[^\s,;&"'{}[\]]+)/gi,
    `$1$2${HIDDEN}$2`,
  ],
];

/** Longest piece that patterns are tried on: a line of megabytes would keep them busy. */
const MOST_OF_A_LINE = 16_384;

export class Redaction {
  /** How much was hidden, by rule. */
  readonly counts = new Map<string, number>();
  readonly #secrets: Secrets;

  /** @param secrets of this host, as far as they are known */
  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  /** Hides secrets in a text. */
  text(text: string): string {
    let shown = this.#withoutEnds(cutLines(text));
    for (const [rule, form, replacement] of FORMS) {
      shown = shown.replace(form, (found, ...groups: readonly unknown[]) => {
        this.#count(rule);
        const [before, ...quotes] = groups.slice(0, 3).map((group) => (typeof group === "string" ? group : ""));
        return replacement.replace("$1", before ?? found).replaceAll("$2", quotes.join(""));
      });
    }
    const clean = this.#secrets.redact(shown);
    if (clean !== shown) this.#count("secret of this host");
    return clean;
  }

  /**
   * Hides keys whose beginning was cut off: the lines of base64 before the line that ends a key, with line ends as they are or as JSON
   * writes them. Walks back from each such line, since a pattern would try each line of each base64 text to its end.
   */
  #withoutEnds(text: string): string {
    let shown = "";
    let done = 0;
    for (const { index, 0: end } of text.matchAll(/-----END [A-Z ]*PRIVATE KEY-----/g)) {
      let start = index;
      for (;;) {
        const [line] =
          /(?:(?<=\\n)|(?<![\\A-Za-z0-9+/=]))[A-Za-z0-9+/=]{1,80}(?:\\r)?(?:\\n|\r?\n)$/.exec(
            text.slice(Math.max(done, start - 90), start),
          ) ?? [];
        if (line === undefined) break;
        start -= line.length;
      }
      // A key that is whole is hidden as a whole.
      if (start === index || text.slice(Math.max(done, start - 60), start).includes("PRIVATE KEY-----")) continue;
      this.#count("private key");
      shown += text.slice(done, start) + HIDDEN;
      done = index + end.length;
    }
    return shown + text.slice(done);
  }

  /** Hides secrets in what JSON can hold, by the names of members too, and writes it. */
  json(value: unknown): string {
    return this.text(JSON.stringify(this.#cleaned(value, ""), undefined, 2) ?? "null");
  }

  #cleaned(value: unknown, name: string): unknown {
    if (typeof value === "string" || typeof value === "number") {
      return value !== "" && isSecretName(name) ? this.#hidden("value by its name") : value;
    }
    if (Array.isArray(value)) return value.map((one) => (name === "env" ? this.#withoutValue(one) : this.#cleaned(one, "")));
    if (!isObject(value)) return value;
    // Whatever asked for it: its content stays away.
    if (value.kind === "Secret")
      return { ...this.#mapped({ ...value, data: undefined, stringData: undefined }), data: this.#hidden("Secret") };
    return this.#mapped(value);
  }

  #mapped(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
    return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, this.#cleaned(value, name)]));
  }

  /** An entry of a container's environment. */
  #withoutValue(entry: unknown): unknown {
    return isObject(entry) && typeof entry.value === "string" ? { ...entry, value: this.#hidden("environment") } : entry;
  }

  #hidden(rule: string): string {
    this.#count(rule);
    return HIDDEN;
  }

  #count(rule: string): void {
    this.counts.set(rule, (this.counts.get(rule) ?? 0) + 1);
  }
}

function cutLines(text: string): string {
  if (!text.split("\n").some((line) => line.length > MOST_OF_A_LINE)) return text;
  return text
    .split("\n")
    .map((line) => (line.length > MOST_OF_A_LINE ? `${line.slice(0, MOST_OF_A_LINE)} … (${line.length} characters)` : line))
    .join("\n");
}
