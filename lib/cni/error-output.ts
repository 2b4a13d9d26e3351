/** Writes what a failed call prints on standard output: `{code, msg, details?}` (C§10). */
import { type ErrorWord, ForeignCniError, messageOf, namingFault, TortieError } from "../errors/errors.ts";
import { stringifyJson } from "../json/value.ts";
import { escapeControlsInLines } from "../log/format.ts";
import { Secrets } from "../log/secrets.ts";

/**
 * Writes the error object, with four spaces of indentation and no newline behind it. `details` of an error of ours ends with its stable
 * word and the next step; an error of a delegate passes unchanged; anything else is a defect of ours, code 999.
 *
 * What it may quote goes to the events of a pod: secrets are hidden as in the log. Control characters of what an error quotes are escaped:
 * runtimes and kubectl print these texts on terminals.
 *
 * An error that happened while another one was being undone stands behind that other one, which came first.
 */
export function renderError(error: unknown, secrets = new Secrets()): string {
  const { code, msg, details } = describeError(error, secrets);
  return stringifyJson({ code, msg, details }, 4);
}

interface DescribedError {
  readonly code: number;
  readonly msg: string;
  readonly details: string | undefined;
  /** `undefined` for what another plugin said. */
  readonly word: ErrorWord | undefined;
  /** What to do next, without what a runtime reads before it; `undefined` for what another plugin said. */
  readonly next: string | undefined;
}

/** Says what `renderError` prints, before it is text. */
export function describeError(error: unknown, secrets = new Secrets()): DescribedError {
  const [first, ...later] = unfold(error);
  const { code, msg, details, word, next } = describe(first);
  const parts = [details, ...later.map((each) => `while undoing: ${messageOf(each)}`)].filter((part) => part !== undefined && part !== "");
  const all = parts.length > 0 ? escapeControlsInLines(secrets.redact(parts.join("; "))) : undefined;
  return { code, msg: secrets.redact(msg), details: all, word, next };
}

function describe(error: unknown): DescribedError {
  if (error instanceof ForeignCniError)
    return { code: error.code, msg: error.message, details: error.details, word: undefined, next: undefined };
  const named = namingFault(error);
  const ours = named instanceof TortieError ? named : new TortieError("internal", messageOf(error));
  const hint = `${ours.word}: ${ours.next}`;
  return {
    code: ours.code,
    msg: escapeControlsInLines(ours.message),
    word: ours.word,
    next: ours.next,
    details: ours.details === undefined ? hint : `${ours.details}; ${hint}`,
  };
}

/**
 * Lists the errors of a failed operation in the order in which they happened: a disposable stack wraps the error that made it run
 * (`suppressed`) into one that came later (`error`), and each of the two may be such a wrapper.
 */
function unfold(error: unknown): unknown[] {
  return error instanceof SuppressedError ? [...unfold(error.suppressed), ...unfold(error.error)] : [error];
}
