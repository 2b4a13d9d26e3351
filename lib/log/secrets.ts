/**
 * Hides the secrets that neither the log nor standard error nor a CNI error may show; a CNI error becomes an event of the pod,
 * which every user of the namespace reads. A register belongs to one call or to one client, never to the process.
 *
 * A proxy between this node and the API server may repeat the whole request in its refusal, in any form: verbatim, broken
 * into lines, with tags in between, escaped, in base64 or in hexadecimal digits. A verbatim secret is hidden by itself; a
 * line that holds anything like a part of a secret is hidden whole.
 */

const HIDDEN = "[hidden]";

/** Shorter ones are words: hiding them would hide the log. */
const SHORTEST = 6;

/** Letters and digits of a secret that are looked for in one piece: any 23 of them in a row hold one such piece. */
const PIECE = 12;

/** A bearer token, or a name with its password, inside some other text. */
const AUTHORIZATION = /\b(Bearer|Basic) [A-Za-z0-9._~+/=-]{12,}/gi;

export class Secrets {
  readonly #texts = new Set<string>();
  #traces: Traces | undefined;

  constructor(...secrets: readonly (string | undefined)[]) {
    for (const secret of secrets) this.add(secret);
  }

  /** Leaves out `undefined` and what is too short to be a secret. */
  add(secret: string | undefined): void {
    const text = secret?.trim() ?? "";
    if (text.length < SHORTEST || this.#texts.has(text)) return;
    this.#texts.add(text);
    this.#traces = undefined;
  }

  /** Adds the value of an Authorization header, with what is encoded in it. */
  addAuthorization(value: string | undefined): void {
    const [, scheme, credentials] = /^(\w+) +(.*)$/.exec(value ?? "") ?? [];
    this.add(credentials);
    if (scheme === "Basic" && credentials !== undefined) this.add(atob(credentials).replace(/^[^:]*:/, ""));
  }

  /** Adds the password in a URL, if there is one. */
  addPasswordOf(url: string | undefined): void {
    const { username = "", password = "" } = URL.parse(url ?? "") ?? {};
    this.add(decoded(password));
    if (password !== "") this.add(btoa(`${decoded(username)}:${decoded(password)}`));
  }

  /** Adds the key in a PEM text. */
  addKey(pem: string | undefined): void {
    this.add(pem?.replace(/-----[^-]+-----/g, ""));
  }

  redact(text: string): string {
    let rest = text;
    // The longest first: a secret may be a part of another.
    for (const secret of [...this.#texts].sort((a, b) => b.length - a.length)) rest = rest.replaceAll(secret, HIDDEN);
    rest = rest.replaceAll(AUTHORIZATION, `$1 ${HIDDEN}`);
    if (!this.#isTracedIn(rest)) return rest;
    const lines = rest.split("\n").map((line) => (this.#isTracedIn(line) ? HIDDEN : line));
    const shown = lines.join("\n");
    // One that goes over several lines.
    return this.#isTracedIn(shown) ? HIDDEN : shown;
  }

  #isTracedIn(text: string): boolean {
    if (this.#texts.size === 0) return false;
    // Most calls read a token and have nothing to hide it from.
    this.#traces ??= tracesOf(this.#texts);
    const { whole, pieces } = this.#traces;
    const plain = unescaped(text);
    return [plain, plain.replace(/<[^<>]*>/g, "")].some((view) => {
      const letters = squeezed(view);
      for (const form of whole) if (letters.includes(form)) return true;
      for (let at = 0; at + PIECE <= letters.length; at++) if (pieces.has(letters.slice(at, at + PIECE))) return true;
      return false;
    });
  }
}

/** Secrets in the forms they may come in, as `squeezed` leaves them: short ones whole, long ones in pieces of one length. */
interface Traces {
  readonly whole: ReadonlySet<string>;
  readonly pieces: ReadonlySet<string>;
}

function tracesOf(secrets: ReadonlySet<string>): Traces {
  const whole = new Set<string>();
  const pieces = new Set<string>();
  for (const form of [...secrets].flatMap(formsOf)) {
    if (form.length < 2 * PIECE) whole.add(form);
    else for (let at = 0; at + PIECE <= form.length; at += PIECE) pieces.add(form.slice(at, at + PIECE));
  }
  return { whole, pieces };
}

/** Lists the secret itself, in hexadecimal digits, and in base64, which depends on how many bytes come before it. */
function formsOf(secret: string): readonly string[] {
  const bytes = new TextEncoder().encode(secret);
  const base64 = [0, 1, 2].map((before) => {
    const padded = new Uint8Array(before + bytes.length);
    padded.set(bytes, before);
    // The first and the last letters are made of neighbours too.
    return padded
      .toBase64()
      .replace(/=+$/, "")
      .slice(before === 0 ? 0 : before + 1, -1);
  });
  return [secret, bytes.toHex(), ...base64].map(squeezed).filter((form) => form.length >= SHORTEST);
}

/** Removes all that may stand between the letters of a secret that was taken apart. */
function squeezed(text: string): string {
  return text.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
}

/** Escapes of URLs, of JSON and JavaScript, and of HTML. */
function unescaped(text: string): string {
  return text
    .replace(/(?:%|\\x|\\u00)([0-9a-f]{2})/gi, (_found, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
    .replace(/&#x([0-9a-f]{1,6});/gi, (_found, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
    .replace(/&#(\d{1,7});/g, (_found, digits: string) => String.fromCharCode(Number(digits)));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
