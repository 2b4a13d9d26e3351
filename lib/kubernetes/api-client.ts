/**
 * The port between what Tortie asks of a Kubernetes API server and how the question travels: one request at a time, over one
 * connection, repeated within limits where repeating is safe. Callers need not know of TLS, credentials or retries.
 */

export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface ApiCall {
  readonly method: HttpMethod;
  /** Path and query below the server's root, escaped: "/api/v1/namespaces/default/pods/a". */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** Of the body; "application/json" when absent. */
  readonly contentType?: string;
}

export interface ApiRequest extends ApiCall {
  /** Limit for this request and its repetitions together, in milliseconds; the client's own when absent. */
  readonly timeoutMs?: number;
}

export interface ApiClient {
  /** For messages: "https://10.96.0.1:443". */
  readonly server: string;
  /**
   * Requests may be asked for all at once; they go out in that order.
   *
   * @returns the body of a 2xx answer, which is JSON text
   * @throws ApiError
   */
  request(request: ApiRequest): Promise<string>;
  /** What is under way fails, and so does whatever is asked later. */
  close(): void;
}

/** What a request came to that was not answered with 2xx. `message` names the method, the URL and what went wrong. */
export class ApiError extends Error {
  /** HTTP status; 0 when no answer came. */
  readonly status: number;
  /** `reason` of the Status object ("NotFound", "AlreadyExists", "Conflict", "Invalid", …); empty when there was none. */
  readonly reason: string;
  /** `details.causes` of the Status object. */
  readonly causes: readonly ApiErrorCause[];
  /** An answer to this request was lost, the last one or an earlier one: the server may have done what it asks. */
  readonly isRepetition: boolean;
  /** `message` of the Status object, or what else is known, without method and URL. */
  readonly explanation: string;
  /** Who asked, for messages: `user "calico" of /etc/cni/net.d/calico-kubeconfig`; empty when it does not matter. */
  readonly identity: string;

  constructor(message: string, facts: ApiErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = "ApiError";
    this.status = facts.status ?? 0;
    this.reason = facts.reason ?? "";
    this.causes = facts.causes ?? [];
    this.isRepetition = facts.isRepetition ?? false;
    this.explanation = facts.explanation ?? message;
    this.identity = facts.identity ?? "";
  }
}

export type ApiErrorFacts = Partial<Pick<ApiError, "status" | "reason" | "causes" | "isRepetition" | "explanation" | "identity" | "cause">>;

export interface ApiErrorCause {
  readonly reason: string;
  readonly field: string;
  readonly message: string;
}
