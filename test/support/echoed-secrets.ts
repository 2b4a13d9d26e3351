/** Looks for a secret in what is said of a failure, whose cause repeated it. */
import { renderError } from "../../lib/cni/error-output.ts";
import { formatFields } from "../../lib/log/format.ts";

/** In a row, of a secret: so many are too many. */
const LETTERS = 12;

/** The CNI error, the log, and the error itself. */
export function everythingSaidOf(error: unknown): string {
  return [renderError(error), formatFields({ error }), Bun.inspect(error, { depth: 10 })].join("\n");
}

/** As it is or in base64, in one piece or with tags in between. */
export function expectNothingOf(secret: string, text: string): void {
  const inBase64 = [0, 1, 2].map((at) => btoa(`${"x".repeat(at)}${secret}`).slice(4));
  const pieces = [secret, ...inBase64]
    .map(lettersOf)
    .flatMap((form) => Array.from({ length: form.length - LETTERS + 1 }, (_, at) => form.slice(at, at + LETTERS)));
  for (const shown of [text, text.replace(/<[^<>]*>/g, "")].map((view) => lettersOf(view.replaceAll("[hidden]", "")))) {
    expect(pieces.filter((piece) => shown.includes(piece))).toEqual([]);
  }
}

function lettersOf(text: string): string {
  return text.replace(/[^A-Za-z0-9]/g, "");
}
