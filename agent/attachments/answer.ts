/**
 * What the service says to a call over the socket: the plugin prints the body unread, and ends with 0 for 200 and 1 for the rest (A§11.3).
 */
import { renderError } from "../../lib/cni/error-output.ts";
import { type ErrorWord, TortieError } from "../../lib/errors/errors.ts";
import type { Secrets } from "../../lib/log/secrets.ts";

export interface Answer {
  readonly status: number;
  /** A CNI result or a CNI error, byte for byte as direct mode prints it; empty for a verb that prints nothing. */
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** The stable word of an error, so that the body need not be parsed. */
const WORD_HEADER = "tortie-word";

/** Words that are not the attachment's failure but say how the call must be made, with the status that tells so. */
const STATUS_OF: Partial<Readonly<Record<ErrorWord, number>>> = {
  "protocol-unsupported": 400,
  "call-invalid": 400,
  "delegate-elsewhere": 421,
  "attachment-deleted": 409,
  "caller-gone": 499,
  "agent-timeout": 504,
};

export function answerOf(printed: string | undefined, headers: Readonly<Record<string, string>>): Answer {
  return { status: 200, body: printed ?? "", headers };
}

export function errorAnswer(error: unknown, secrets?: Secrets): Answer {
  const first = firstOf(error);
  const word = first instanceof TortieError ? first.word : undefined;
  return {
    status: (word === undefined ? undefined : STATUS_OF[word]) ?? 500,
    body: renderError(error, secrets),
    headers: word === undefined ? {} : { [WORD_HEADER]: word },
  };
}

/** What failed first; what an undo met afterwards wraps it. */
function firstOf(error: unknown): unknown {
  return error instanceof SuppressedError ? firstOf(error.suppressed) : error;
}
