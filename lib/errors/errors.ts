/** What goes wrong, said so that a person can act on it: the one class that carries the stable words of the catalogue. */
import { ERROR_CATALOGUE } from "./error-catalogue.ts";

/** A stable word of the catalogue. */
export type ErrorWord = keyof typeof ERROR_CATALOGUE;

/** An error of Tortie's own: a stable word, what failed on which object (`message`), and what to do next. */
export class TortieError extends Error {
  readonly word: ErrorWord;
  readonly code: number;
  readonly next: string;
  /** Extra facts for the `details` member of a CNI error, put before the word (C§10). */
  readonly details: string | undefined;

  constructor(word: ErrorWord, message: string, options: { cause?: unknown; next?: string; details?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TortieError";
    this.word = word;
    const { code, next } = ERROR_CATALOGUE[word];
    this.code = code;
    this.next = options.next ?? next;
    this.details = options.details;
  }
}

/** An error about one key of a document. */
export class KeyError extends TortieError {
  /** As people write it, with the keys as the document spells them: "ipam.pools[0].cidr"; empty: the document as a whole. */
  readonly path: string;

  constructor(word: ErrorWord, message: string, path: string, options: { next?: string } = {}) {
    super(word, message, options);
    this.path = path;
  }
}

/** An error object that another plugin printed, passed on unchanged (C§10, "child's code"). */
export class ForeignCniError extends Error {
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, details?: string) {
    super(message);
    this.name = "ForeignCniError";
    this.code = code;
    this.details = details;
  }
}

/** Text of anything that was thrown, causes left out. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
