/**
 * Says what goes wrong so that a person can act on it: the one class that carries the stable words of the catalogue, and one rule for what
 * failed because of the process or the host: want of privilege, of room or of descriptors.
 */
import { type ErrorWord, entryOf } from "./error-catalogue.ts";

export type { ErrorWord } from "./error-catalogue.ts";

/** Reports an error of Tortie's own: a stable word, what failed on which object (`message`), and what to do next. */
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
    const { code, next } = entryOf(word);
    this.code = code;
    this.next = options.next ?? next;
    this.details = options.details;
  }
}

/** Reports an error about one key of a document. */
export class KeyError extends TortieError {
  /** As people write it, with the keys as the document spells them: "ipam.pools[0].cidr"; empty: the document as a whole. */
  readonly path: string;

  constructor(word: ErrorWord, message: string, path: string, options: { next?: string } = {}) {
    super(word, message, options);
    this.path = path;
  }
}

/** Carries an error object that another plugin printed, passed on unchanged (C§10, "child's code"). */
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

/** Gives the text of anything that was thrown, causes left out. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Word for a failed system call that says something about the process or the host, whatever it was about. `isDecisive`: it also replaces
 * the word of the layers above, whose advice ("remove that file", "check that the kernel has the file") would do harm. Room and read-only
 * file systems are not: "give a --cache-dir with room" knows the object.
 */
const WORDS_OF_FAULTS: Readonly<Record<string, { readonly word: ErrorWord; readonly isDecisive: boolean }>> = {
  EPERM: { word: "privilege-missing", isDecisive: true },
  EACCES: { word: "privilege-missing", isDecisive: true },
  EMFILE: { word: "descriptors-exhausted", isDecisive: true },
  ENFILE: { word: "descriptors-exhausted", isDecisive: true },
  ENOSPC: { word: "disk-full", isDecisive: false },
  EDQUOT: { word: "disk-full", isDecisive: false },
  EROFS: { word: "file-system-read-only", isDecisive: false },
};

/** Errors of the kernel's netlink answers have the number alone, and their ENOSPC is about no disk. */
const NAMES_OF_NUMBERS: Readonly<Record<number, string>> = { 1: "EPERM", 13: "EACCES", 23: "ENFILE", 24: "EMFILE" };

/**
 * Chooses the error to tell: one with the message of `error` and the word of the system call that failed first, else `error` itself.
 * EACCES of root is no want of privilege.
 *
 * @param effectiveUser user id of the process
 */
export function namingFault(error: unknown, effectiveUser: number | undefined = process.geteuid?.()): unknown {
  if (!(error instanceof Error)) return error;
  for (const cause of causesOf(error)) {
    const name = nameOfFault(cause);
    const fault = name === undefined || (name === "EACCES" && effectiveUser === 0) ? undefined : WORDS_OF_FAULTS[name];
    if (fault === undefined || !(fault.isDecisive || !(error instanceof TortieError))) continue;
    if (error instanceof TortieError && error.word === fault.word) return error;
    const details = error instanceof TortieError ? error.details : undefined;
    return new TortieError(fault.word, error.message, { cause: error, ...(details !== undefined && { details }) });
  }
  return error;
}

function nameOfFault(error: object): string | undefined {
  if ("code" in error && typeof error.code === "string") return error.code;
  return "errno" in error && typeof error.errno === "number" ? NAMES_OF_NUMBERS[Math.abs(error.errno)] : undefined;
}

/** Lists the error, what caused it, what caused that. Not `instanceof Error`: under Jest the errors of node:fs come from another realm. */
function causesOf(error: object): readonly object[] {
  const causes = [error];
  for (let each: object = error; causes.length < MOST_CAUSES && "cause" in each; ) {
    if (typeof each.cause !== "object" || each.cause === null) break;
    each = each.cause;
    causes.push(each);
  }
  return causes;
}

/** A chain that leads back to itself ends here. */
const MOST_CAUSES = 16;
