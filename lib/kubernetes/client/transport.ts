/** The port between the client, which decides what to ask and what to repeat, and the way one question travels. */
import type { HttpMethod } from "../api-client.ts";

export interface WireRequest {
  readonly method: HttpMethod;
  /** Path and query as they go into the request line. */
  readonly target: string;
  /** Names and values; Host and Content-Length are the transport's. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | undefined;
}

export interface WireAnswer {
  readonly status: number;
  /** Values of the headers of these names; empty when absent. */
  readonly contentType: string;
  readonly retryAfter: string;
  readonly body: string;
}

/**
 * - `not-connected`: nothing was sent, for nobody was there to take it
 * - `untrusted`: the server could not prove who it is, or our own certificate is unusable; repeating is no use
 * - `broken`: the connection ended before the answer did
 * - `timeout`: the limit of this try was over
 * - `not-understood`: what came back is no HTTP answer, or is larger than anything we asked for
 */
export type TransportFailure = "not-connected" | "untrusted" | "broken" | "timeout" | "not-understood";

/** `message` says what happened, without method and URL. */
export class TransportError extends Error {
  readonly failure: TransportFailure;
  /** Whether the server may have got the request. */
  readonly wasSent: boolean;

  constructor(failure: TransportFailure, message: string, options: { wasSent?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TransportError";
    this.failure = failure;
    this.wasSent = options.wasSent ?? false;
  }
}

export interface Transport {
  /**
   * Sends one request and waits for its answer. Several may be under way: they travel in the order of the calls.
   *
   * @param limitMs for this one try, connecting included
   * @throws TransportError
   */
  exchange(request: WireRequest, limitMs: number): Promise<WireAnswer>;
  /** Begins to connect, if that means something here. Never fails. */
  connect(): void;
  /** Ends the connection; whatever is under way fails as `broken`. */
  close(): void;
}
