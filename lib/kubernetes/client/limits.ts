/** Decides how long, how often and how many at once the client tries, and whether a request that failed may be sent once more. */
import type { ApiRequest } from "../api-client.ts";
import type { WireAnswer } from "./transport.ts";
import { TransportError } from "./transport-error.ts";

/** All in milliseconds but `repetitions` and `connections`. */
export interface ClientLimits {
  /** One request with its repetitions. */
  readonly request: number;
  /** One try, connecting included. */
  readonly try: number;
  /** Trying to connect to a server that refuses. Calico gives up at once; a server that is restarted takes seconds. */
  readonly refused: number;
  /** Limits what failed tries and pauses may cost all requests of this client together. */
  readonly patience: number;
  /** The least that a request is given, however little patience is left. */
  readonly least: number;
  readonly repetitions: number;
  /** Connections at one time: so many requests may be under way together. */
  readonly connections: number;
  /** Before the first repetition; doubled before every further one. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** The longest Retry-After that is waited for. */
  readonly retryAfter: number;
}

export const DEFAULT_LIMITS: ClientLimits = {
  request: 30_000,
  try: 15_000,
  refused: 1_800,
  patience: 60_000,
  least: 5_000,
  repetitions: 10,
  connections: 1,
  firstPause: 100,
  longestPause: 2_000,
  retryAfter: 10_000,
};

/** Limits the requests a second: `burst` at once, then `qps` on average (C§1.4). */
export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** @param qps 0 and below: no limit */
  constructor(qps: number, burst: number, now: number) {
    this.#perMs = qps / 1000;
    this.#burst = Math.max(burst, 1);
    this.#tokens = this.#burst;
    this.#at = now;
  }

  /** Takes one token, on credit if there is no other. @returns milliseconds to wait before using it */
  take(now: number): number {
    if (this.#perMs <= 0) return 0;
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs) - 1;
    this.#at = now;
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs;
  }
}

/** Of the time that passes, so much comes back: an operation that only waits gets a quarter more than what there was. */
const REFILL = 0.2;

/**
 * What failed tries and pauses may cost all requests of a client together: an operation makes a dozen of them, one after the other. Those
 * that wait at one time, in an agent with a burst of calls, cost the time that passes and not its multiple. It refills with time, so that
 * a client that lives for months survives more than one outage.
 */
export class Patience {
  readonly #whole: number;
  #left: number;
  #at: number;
  /** The time until here has been paid for. */
  #paidUntil = Number.NEGATIVE_INFINITY;

  /** @param whole milliseconds @param now of a clock that never jumps, as everywhere here */
  constructor(whole: number, now: number) {
    this.#whole = whole;
    this.#left = whole;
    this.#at = now;
  }

  /** Counts milliseconds; below zero when more was spent than there was. */
  left(now: number): number {
    this.#left = Math.min(this.#whole, this.#left + (now - this.#at) * REFILL);
    this.#at = now;
    return this.#left;
  }

  /** @param to may be ahead of `now`: the end of a pause */
  spend(from: number, to: number, now: number): void {
    const cost = Math.max(to - Math.max(from, this.#paidUntil), 0);
    this.#paidUntil = Math.max(this.#paidUntil, to);
    // However long it was, an outage is forgotten a limited time after its end.
    this.#left = Math.max(this.left(now) - cost, -this.#whole);
  }
}

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

/** Tells whether the server may have done what the request asks although it did not say so. A server that is too busy did nothing. */
export function mayHaveBeenDone(failed: FailedTry): boolean {
  return failed instanceof TransportError ? failed.wasSent : isPassing(failed.status) && failed.status !== 429;
}

/** Statuses that another try may not meet. */
function isPassing(status: number): boolean {
  return status === 429 || status === 500 || status === 502 || status === 503 || status === 504;
}

/**
 * Tells whether sending it twice does no more than sending it once, or tells the second time that it was done before: a POST answers
 * AlreadyExists, a PUT with a resourceVersion and a DELETE with preconditions answer Conflict or NotFound, and a PATCH of ours says the
 * same thing every time. Without those, the second one could hit what another client wrote in between.
 */
export function isSafeToRepeat({ method, body }: ApiRequest): boolean {
  if (method === "PUT") return body?.includes('"resourceVersion"') === true;
  if (method === "DELETE") return body?.includes('"preconditions"') === true;
  return true;
}

/** Reads milliseconds from the header or the Status object (`details.retryAfterSeconds`). */
export function retryAfterOf({ retryAfter, body }: WireAnswer): number | undefined {
  if (retryAfter !== "") {
    const seconds = Number(retryAfter);
    const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(retryAfter) - Date.now();
    return Number.isNaN(wait) ? undefined : Math.max(wait, 0);
  }
  const found = /"retryAfterSeconds":\s*(\d{1,6})/.exec(body);
  return found?.[1] === undefined ? undefined : Number(found[1]) * 1000;
}

/** Picks a pause between half of it and all of it: sixty plugins that failed together should not come back together. */
function spread(pause: number): number {
  return pause * (0.5 + Math.random() / 2);
}
