/**
 * Says what goes wrong so that a person can act on it: the one class that carries the stable words of the catalogue, and one rule for what
 * failed for want of privilege.
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

const EPERM = 1;
const EACCES = 13;

/**
 * Chooses the error to tell: `privilege-missing` with the message of `error` where the kernel refused something for want of privilege, else
 * `error` itself. That is EPERM, or EACCES unless the process is root, anywhere among the causes: what failed first is the reason, and the
 * advice of the layers above it ("remove that file") would do harm.
 *
 * @param effectiveUser user id of the process
 */
export function namingPrivilege(error: unknown, effectiveUser: number | undefined = process.geteuid?.()): unknown {
  if (!(error instanceof Error) || (error instanceof TortieError && error.word === "privilege-missing")) return error;
  if (!causesOf(error).some((each) => isRefusal(each, effectiveUser === 0))) return error;
  const details = error instanceof TortieError ? error.details : undefined;
  return new TortieError("privilege-missing", error.message, { cause: error, ...(details !== undefined && { details }) });
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

function isRefusal(error: object, isRoot: boolean): boolean {
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  // Errors of the kernel's netlink answers have the number alone.
  const errno = "errno" in error && typeof error.errno === "number" ? Math.abs(error.errno) : undefined;
  const [isPermission, isAccess] = code === undefined ? [errno === EPERM, errno === EACCES] : [code === "EPERM", code === "EACCES"];
  return isPermission || (isAccess && !isRoot);
}
