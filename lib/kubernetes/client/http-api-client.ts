/** The API client: one connection, requests in order, and for each one as many tries as are safe and bounded. */

import { consistsOf, isVisible } from "../../system/characters.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../api-client.ts";
import type { ApiConfig } from "../config/api-config.ts";
import { type ClientLimits, DEFAULT_LIMITS } from "./limits.ts";
import { type FailedTry, mayHaveBeenDone, pauseBeforeRepeating } from "./repetition.ts";
import { openSession, type Session } from "./session.ts";
import { foreignAnswerError, isJsonAnswer, statusError } from "./status-error.ts";
import { TokenBucket } from "./token-bucket.ts";
import { TransportError, type WireAnswer, type WireRequest } from "./transport.ts";
import { type Passenger, Turnstile } from "./turnstile.ts";

/**
 * A client that connects at its first request.
 *
 * @param limits where they differ from the defaults
 */
export function createApiClient(config: ApiConfig, limits: Partial<ClientLimits> = {}): ApiClient {
  return new HttpApiClient(config, { ...DEFAULT_LIMITS, ...limits });
}

/** What has happened to one request. */
interface Course {
  readonly deadline: number;
  failures: number;
  refusedSince: number | undefined;
  isRepetition: boolean;
  hasNewCredentials: boolean;
}

class HttpApiClient implements ApiClient {
  readonly server: string;
  readonly #limits: ClientLimits;
  readonly #turnstile = new Turnstile();
  readonly #bucket: TokenBucket;
  #config: ApiConfig;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  /** What is left of `limits.patience`. */
  #patience: number;
  #isClosed = false;

  constructor(config: ApiConfig, limits: ClientLimits) {
    this.server = config.server.url;
    this.#config = config;
    this.#limits = limits;
    this.#patience = limits.patience;
    this.#bucket = new TokenBucket(config.qps, config.burst, performance.now());
  }

  async request(request: ApiRequest): Promise<string> {
    const passenger = this.#passengerOf(request);
    const turn = this.#turnstile.enter(passenger);
    if (turn !== undefined) await turn;
    try {
      return await this.#untilDone(request);
    } finally {
      this.#turnstile.leave(passenger);
    }
  }

  #passengerOf({ method }: ApiRequest): Passenger {
    if (this.#config.proxy !== undefined) return "alone";
    return method === "GET" ? "reader" : "writer";
  }

  connect(): void {
    if (this.#config.identity.plugin !== undefined || this.#session !== undefined) return;
    this.#open(undefined).then(
      ({ transport }) => {
        if (!this.#isClosed) transport.connect();
      },
      // The first request meets it.
      () => {},
    );
  }

  close(): void {
    this.#isClosed = true;
    this.#session?.transport.close();
  }

  async #untilDone(request: ApiRequest): Promise<string> {
    if (!request.path.startsWith("/") || !consistsOf(request.path, isVisible)) {
      throw new ApiError(`${request.method} ${JSON.stringify(request.path)}: this is no path of a request`);
    }
    const { least, request: whole } = this.#limits;
    const start = performance.now();
    const course: Course = {
      deadline: start + Math.min(request.timeoutMs ?? whole, Math.max(this.#patience, least)),
      failures: 0,
      refusedSince: undefined,
      isRepetition: false,
      hasNewCredentials: false,
    };
    for (;;) {
      if (this.#isClosed) throw this.#failure(request, course, new TransportError("not-connected", "the client is closed"));
      const session = this.#session !== undefined && !isExpired(this.#session) ? this.#session : await this.#open(this.#session);
      const began = performance.now();
      const outcome = await this.#try(request, session, course);
      if (!(outcome instanceof TransportError) && outcome.status >= 200 && outcome.status < 300) {
        if (isJsonAnswer(outcome)) return outcome.body;
        throw foreignAnswerError(this.#nameOf(request), outcome);
      }
      if (!(outcome instanceof TransportError) && outcome.status === 401 && !course.hasNewCredentials) {
        course.hasNewCredentials = true;
        await this.#renew(session);
        continue;
      }
      await this.#pause(request, course, outcome, began);
    }
  }

  /** Waits until the request may be tried once more. @throws ApiError when it may not */
  async #pause(request: ApiRequest, course: Course, failed: FailedTry, began: number): Promise<void> {
    course.failures++;
    if (mayHaveBeenDone(failed)) course.isRepetition = true;
    const now = performance.now();
    if (failed instanceof TransportError && failed.failure === "not-connected") course.refusedSince ??= now;
    const refusedFor = course.refusedSince === undefined ? 0 : now - course.refusedSince;
    const pause = this.#isClosed
      ? undefined
      : pauseBeforeRepeating(request, failed, { failures: course.failures, refusedFor }, this.#limits);
    this.#patience -= now - began + (pause ?? 0);
    if (pause === undefined || now + pause >= course.deadline) throw this.#failure(request, course, failed);
    await Bun.sleep(pause);
  }

  async #try(request: ApiRequest, session: Session, course: Course): Promise<FailedTry | WireAnswer> {
    const wait = this.#bucket.take(performance.now());
    if (wait > 0) await Bun.sleep(wait);
    const left = course.deadline - performance.now();
    if (left <= 0) return new TransportError("timeout", `the limit of requests a second left no time for it`);
    try {
      return await session.transport.exchange(wireRequest(request, session), Math.min(left, this.#limits.try));
    } catch (error) {
      if (error instanceof TransportError) return error;
      throw error;
    }
  }

  /** Reads the credentials again that the server refused, unless another request has seen to it. @throws TortieError */
  async #renew(refused: Session): Promise<void> {
    if (this.#session !== refused) return;
    if (this.#opening === undefined) this.#config = this.#config.reload();
    await this.#open(refused);
  }

  /** One new session, whoever asks. @throws TortieError */
  #open(former: Session | undefined): Promise<Session> {
    this.#opening ??= openSession(this.#config, former)
      .then((session) => {
        this.#session = session;
        if (this.#isClosed) session.transport.close();
        return session;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  #failure(request: ApiRequest, course: Course, failed: FailedTry): ApiError {
    const what = this.#nameOf(request);
    if (!(failed instanceof TransportError)) return statusError(what, failed, course.isRepetition, this.#config.identity.description);
    const times = course.failures > 1 ? ` (tried ${course.failures} times)` : "";
    const explanation = `${failed.message}${times}`;
    return new ApiError(`${what}: ${explanation}`, {
      isRepetition: course.isRepetition,
      explanation: `${what}: ${explanation}`,
      cause: failed,
    });
  }

  #nameOf({ method, path }: ApiRequest): string {
    return `${method} ${this.server}${path}`;
  }
}

function isExpired({ expiresAt }: Session): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}

function wireRequest({ method, path, body, contentType }: ApiRequest, { config, headers }: Session): WireRequest {
  const target = config.server.basePath + path;
  if (body === undefined) return { method, target, headers, body };
  return { method, target, headers: [...headers, ["Content-Type", contentType ?? "application/json"]], body };
}
