/** Asks an API server: over one connection, one request after the other, each with as many tries as are safe and bounded. */
import type { Environment } from "../../cni/protocol.ts";
import { Lane } from "../../system/lane.ts";
import { NEVER } from "../../system/waiting.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../api-client.ts";
import type { ApiConfig } from "../config/api-config.ts";
import { type KubernetesSettings, resolveApiConfig } from "../config/resolve.ts";
import { OTHER_OBJECT, problemOfAnswer, statusError } from "./answers.ts";
import { ApiConnection, type Session, wireRequest } from "./connection.ts";
import {
  type ClientLimits,
  DEFAULT_LIMITS,
  type FailedTry,
  isSafeToRepeat,
  mayHaveBeenDone,
  Patience,
  pauseBeforeRepeating,
  TokenBucket,
} from "./limits.ts";
import type { WireAnswer } from "./transport.ts";
import { TransportError, transportErrorOr } from "./transport-error.ts";

/**
 * Reads kubeconfig and credentials; the connection is made at the first request, which is when a credential plugin runs.
 *
 * @param limits where they differ from the defaults
 * @throws TortieError `kubeconfig-missing`, `kubeconfig-unreadable`, `kubeconfig-invalid`, `netconf-value`; requests: `credentials-failed`
 */
export function openApiClient(config: KubernetesSettings, env: Environment, limits: Partial<ClientLimits> = {}): ConnectedClient {
  return createApiClient(resolveApiConfig(config, env), limits);
}

/** Is a client whose connection can also carry what is no single request. */
export type ConnectedClient = ApiClient & Disposable & Pick<ApiConnection, "exchange" | "socket">;

/**
 * Makes a client that connects at its first request.
 *
 * @param limits where they differ from the defaults
 */
export function createApiClient(config: ApiConfig, limits: Partial<ClientLimits> = {}): ConnectedClient {
  return new HttpApiClient(config, { ...DEFAULT_LIMITS, ...limits });
}

/** Characters; a Status object has some hundred. */
const MOST_OF_A_REFUSAL = 64 * 1024;

/** What has happened to one request. */
interface Course {
  readonly deadline: number;
  failures: number;
  refusedSince: number | undefined;
  isRepetition: boolean;
  isRenewed: boolean;
}

class HttpApiClient extends ApiConnection implements ApiClient {
  readonly #limits: ClientLimits;
  readonly #lane: Lane;
  readonly #bucket: TokenBucket;
  readonly #patience: Patience;

  constructor(config: ApiConfig, limits: ClientLimits) {
    super(config);
    this.#limits = limits;
    this.#lane = new Lane({ running: limits.connections });
    this.#patience = new Patience(limits.patience, performance.now());
    this.#bucket = new TokenBucket(config.qps, config.burst, performance.now());
  }

  request(request: ApiRequest): Promise<string> {
    return this.#lane.run(NEVER, () => this.#untilDone(request));
  }

  async #untilDone(request: ApiRequest): Promise<string> {
    if (!isPath(request.path)) {
      throw new ApiError(`${request.method} ${JSON.stringify(request.path)}: this is no path of a request`);
    }
    const { least, request: whole } = this.#limits;
    const start = performance.now();
    const course: Course = {
      deadline: start + Math.min(request.timeoutMs ?? whole, Math.max(this.#patience.left(start), least)),
      failures: 0,
      refusedSince: undefined,
      isRepetition: false,
      isRenewed: false,
    };
    for (;;) {
      if (this.sessions.isClosed) throw this.#failure(request, course, new TransportError("not-connected", "the client is closed"));
      const session = await this.sessions.current();
      const began = performance.now();
      const outcome = await this.#try(request, session, course);
      if (!(outcome instanceof TransportError) && isSuccess(outcome)) return outcome.body;
      if (!course.isRenewed && (await this.sessions.isRenewed(session, outcome))) {
        course.isRenewed = true;
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
    const pause = this.sessions.isClosed
      ? undefined
      : pauseBeforeRepeating(request, failed, { failures: course.failures, refusedFor }, this.#limits);
    this.#patience.spend(began, now + (pause ?? 0), now);
    if (pause === undefined || now + pause >= course.deadline) throw this.#failure(request, course, failed);
    await Bun.sleep(pause);
  }

  async #try(request: ApiRequest, session: Session, course: Course): Promise<FailedTry | WireAnswer> {
    const wait = this.#bucket.take(performance.now());
    if (wait > 0) await Bun.sleep(wait);
    const left = course.deadline - performance.now();
    if (left <= 0) return new TransportError("timeout", `the limit of requests a second left no time for it`);
    const wire = wireRequest(request, session, isSafeToRepeat(request));
    const answer = await transportErrorOr(() => session.transport.exchange(wire, Math.min(left, this.#limits.try)));
    if (answer instanceof TransportError) return answer;
    if (answer.mayBeSecond) course.isRepetition = true;
    const problem = isSuccess(answer) ? problemOfAnswer(request, answer, (one) => this.#redacted(one)) : undefined;
    if (problem === undefined) return answer;
    session.transport.disconnect();
    return new TransportError(problem === OTHER_OBJECT ? "broken" : "not-understood", problem, { wasSent: true });
  }

  #failure(request: ApiRequest, course: Course, failed: FailedTry): ApiError {
    const what = this.#nameOf(request);
    if (!(failed instanceof TransportError))
      return statusError(what, this.#redacted(failed), course.isRepetition, this.sessions.config.identity.description);
    const times = course.failures > 1 ? ` (tried ${course.failures} times)` : "";
    const explanation = `${this.redact(failed.message)}${times}`;
    return new ApiError(`${what}: ${explanation}`, {
      isRepetition: course.isRepetition,
      explanation: `${what}: ${explanation}`,
      fault: failed.fault,
      cause: failed,
    });
  }

  /** Cuts out so much of an answer as a message may repeat. */
  #redacted({ contentType, body, ...answer }: WireAnswer): WireAnswer {
    return {
      ...answer,
      contentType: this.redact(contentType),
      body: this.redact(body.slice(0, MOST_OF_A_REFUSAL)),
    };
  }

  #nameOf({ method, path }: ApiRequest): string {
    return `${method} ${this.server}${path}`;
  }
}

/** Tells whether `fetch` sends the path as it is: it would resolve ".." and leave out what follows "#". */
function isPath(path: string): boolean {
  return /^\/[\x21-\x7e]*$/.test(path) && path === path.replace("#", "") && URL.parse(path, "http://host")?.pathname === path.split("?")[0];
}

function isSuccess({ status }: WireAnswer): boolean {
  return status >= 200 && status < 300;
}
