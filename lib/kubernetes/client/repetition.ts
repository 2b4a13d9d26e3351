/** Whether a request that failed may be sent once more, and after what pause. */
import type { ApiRequest } from "../api-client.ts";
import type { ClientLimits } from "./limits.ts";
import type { WireAnswer } from "./transport.ts";
import { TransportError } from "./transport-error.ts";

/** How a try ended that did not succeed. */
export type FailedTry = WireAnswer | TransportError;

/** What happened to a request so far. */
export interface Attempts {
  /** Tries that failed, this one included. */
  readonly failures: number;
  /** Milliseconds since the server was first found not to listen; 0 when this try is the first to find that. */
  readonly refusedFor: number;
}

/**
 * @returns milliseconds to wait before the next try; `undefined` when there must be none
 */
export function pauseBeforeRepeating(request: ApiRequest, failed: FailedTry, attempts: Attempts, limits: ClientLimits): number | undefined {
  if (attempts.failures > limits.repetitions) return undefined;
  const pause = Math.min(limits.firstPause * 2 ** (attempts.failures - 1), limits.longestPause);
  if (failed instanceof TransportError) {
    switch (failed.failure) {
      case "untrusted":
      case "not-understood":
        return undefined;
      case "not-connected":
        return attempts.refusedFor + pause <= limits.refused ? pause : undefined;
      default:
        return !failed.wasSent || isSafeToRepeat(request) ? spread(pause) : undefined;
    }
  }
  if (!isPassing(failed.status) || !(failed.status === 429 || isSafeToRepeat(request))) return undefined;
  const wanted = retryAfterOf(failed);
  if (wanted === undefined) return spread(pause);
  return wanted <= limits.retryAfter ? Math.max(wanted, spread(pause)) : undefined;
}

/** Whether the server may have done what the request asks although it did not say so. A server that is too busy did nothing. */
export function mayHaveBeenDone(failed: FailedTry): boolean {
  return failed instanceof TransportError ? failed.wasSent : isPassing(failed.status) && failed.status !== 429;
}

/** Statuses that another try may not meet. */
function isPassing(status: number): boolean {
  return status === 429 || status === 500 || status === 502 || status === 503 || status === 504;
}

/**
 * Whether sending it twice does no more than sending it once, or tells the second time that it was done before: a POST answers
 * AlreadyExists, a PUT with a resourceVersion and a DELETE with preconditions answer Conflict or NotFound, and a PATCH of ours says the
 * same thing every time. Without those, the second one could hit what another client wrote in between.
 */
export function isSafeToRepeat({ method, body }: ApiRequest): boolean {
  if (method === "PUT") return body?.includes('"resourceVersion"') === true;
  if (method === "DELETE") return body?.includes('"preconditions"') === true;
  return true;
}

/** Milliseconds, from the header or the Status object (`details.retryAfterSeconds`). */
export function retryAfterOf({ retryAfter, body }: WireAnswer): number | undefined {
  if (retryAfter !== "") {
    const seconds = Number(retryAfter);
    const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(retryAfter) - Date.now();
    return Number.isNaN(wait) ? undefined : Math.max(wait, 0);
  }
  const found = /"retryAfterSeconds":\s*(\d{1,6})/.exec(body);
  return found?.[1] === undefined ? undefined : Number(found[1]) * 1000;
}

/** Between half of it and all of it: sixty plugins that failed together should not come back together. */
function spread(pause: number): number {
  return pause * (0.5 + Math.random() / 2);
}
