/**
 * Defines the port between what Tortie asks of a Kubernetes API server and how the question travels: one request at a time, over one
 * connection, repeated within limits where repeating is safe. Callers need not know of TLS, credentials or retries. Lists of any
 * length come in pages, as of one moment (Kubernetes API concepts, "Retrieving large results sets in chunks").
 */
import { type Fields, objects, parseObject, section, text } from "../json/decode.ts";

export type HttpMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface ApiCall {
  readonly method: HttpMethod;
  /** Path and query below the server's root, escaped: "/api/v1/namespaces/default/pods/a". */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** Of the body; "application/json" when absent. */
  readonly contentType?: string;
  /** Which form of the objects is asked for; "application/json" when absent. */
  readonly accept?: string | undefined;
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

/** Says what a request came to that was not answered with 2xx. `message` names the method, the URL and what went wrong. */
export class ApiError extends Error {
  /** HTTP status; 0 when no answer came. */
  readonly status: number;
  /** `reason` of the Status object ("NotFound", "AlreadyExists", "Conflict", "Invalid", …); empty when there was no Status object. */
  readonly reason: string;
  /** `details.causes` of the Status object. */
  readonly causes: readonly ApiErrorCause[];
  /** An answer to this request was lost, the last one or an earlier one: the server may have done what it asks. */
  readonly isRepetition: boolean;
  /** `message` of the Status object, or what else is known, without method and URL. */
  readonly explanation: string;
  /** Who asked, for messages: `user "calico" of /etc/cni/net.d/calico-kubeconfig`; empty when it does not matter. */
  readonly identity: string;
  /** Why this was no talk with a trusted API server, if that is what went wrong. */
  readonly fault: ApiFault | undefined;

  constructor(message: string, facts: ApiErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = "ApiError";
    this.status = facts.status ?? 0;
    this.reason = facts.reason ?? "";
    this.causes = facts.causes ?? [];
    this.isRepetition = facts.isRepetition ?? false;
    this.explanation = facts.explanation ?? message;
    this.identity = facts.identity ?? "";
    this.fault = facts.fault;
  }
}

/** `untrusted`: a certificate was refused. `foreign`: something answered that is no API server. */
export type ApiFault = "untrusted" | "foreign";

export type ApiErrorFacts = Partial<
  Pick<ApiError, "status" | "reason" | "causes" | "isRepetition" | "explanation" | "identity" | "fault" | "cause">
>;

export interface ApiErrorCause {
  readonly reason: string;
  readonly field: string;
  readonly message: string;
}

/** Calico's page size (I§2.1). */
const PAGE = 500;

/** Which objects of a collection, in the API's own language; absent for all. */
export interface Selectors {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface Page {
  readonly items: readonly Fields[];
  /** Empty on the last page. */
  readonly next: string;
  /** The list's resourceVersion. */
  readonly version: string;
}

/** @returns the terms of a query, of which there may be none */
export function selectorTerms({ labelSelector = "", fieldSelector = "" }: Selectors): readonly string[] {
  const terms = Object.entries({ labelSelector, fieldSelector }).filter(([, selector]) => selector !== "");
  return terms.map(([name, selector]) => `${name}=${encodeURIComponent(selector)}`);
}

/**
 * Reads the pages of a list, in the order of namespaces and names.
 *
 * @param ask sends a GET with this query, which begins with "?"
 * @param mayBeOld the server answers from its memory at once; otherwise that memory must first have seen every write to etcd, of any kind:
 * up to 100 ms (KEP-2340)
 * @throws what `ask` throws
 */
export async function* pagesOf(ask: (query: string) => Promise<Page>, selectors: Selectors, mayBeOld: boolean): AsyncGenerator<Page> {
  const query = `?${[...selectorTerms(selectors), mayBeOld ? "resourceVersion=0" : `limit=${PAGE}`].join("&")}`;
  for (let next: string | undefined; next !== ""; ) {
    const page = await ask(next === undefined ? query : `${query}&continue=${encodeURIComponent(next)}`);
    yield page;
    next = page.next;
  }
}

/** Lists objects of every page. @throws ApiError */
export async function everyItem(client: Pick<ApiClient, "request">, path: string, selectors: Selectors = {}): Promise<readonly Fields[]> {
  const ask = async (query: string) => parsePage(await client.request({ method: "GET", path: `${path}${query}` }));
  const pages = await Array.fromAsync(pagesOf(ask, selectors, false));
  return pages.flatMap(({ items }) => items);
}

/** @throws Error when the text is no list */
export function parsePage(json: string): Page {
  const page = parseObject(json);
  const metadata = section(page, "metadata");
  return { items: objects(page, "items"), next: text(metadata, "continue"), version: text(metadata, "resourceVersion") };
}
