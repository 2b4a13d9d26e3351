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
  /** Number of the endpoint that the call was about. */
  readonly endpoint?: number;
  /** How many warnings the agent's log has of this call. */
  readonly warnings?: number;
}

/** Words that are not the attachment's failure but say how the call must be made, with the status that tells so. */
const STATUS_OF: Partial<Readonly<Record<ErrorWord, number>>> = {
  "protocol-unsupported": 400,
  "call-invalid": 400,
  "delegate-elsewhere": 421,
  "attachment-deleted": 409,
  "caller-gone": 499,
  "agent-timeout": 504,
};

export function answerOf(printed: string | undefined, warnings: number, endpoint: number | undefined): Answer {
  return { status: 200, body: printed ?? "", warnings, ...(endpoint === undefined ? {} : { endpoint }) };
}

export function errorAnswer(error: unknown, secrets?: Secrets): Answer {
  const first = firstOf(error);
  const word = first instanceof TortieError ? first.word : undefined;
  return {
    status: (word === undefined ? undefined : STATUS_OF[word]) ?? 500,
    body: renderError(error, secrets),
  };
}

/** What failed first; what an undo met afterwards wraps it. */
function firstOf(error: unknown): unknown {
  return error instanceof SuppressedError ? firstOf(error.suppressed) : error;
}
