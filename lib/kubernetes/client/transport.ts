/**
 * Asks an API server one question, over the runtime's `fetch`. A session of `fetch` owns its
 * connections: it verifies the server's certificate once for each and is closed with the client. The client decides how many
 * connections there are: as many as there are exchanges at one time.
 */
import { systemErrorCode } from "../../system/errno.ts";
import type { HttpMethod } from "../api-client.ts";
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { proxyOption } from "../config/proxy.ts";
import { type TlsMaterial, tlsMaterial, whatIsUnusable } from "./tls.ts";
import { failureOf, TransportError } from "./transport-error.ts";

/** A list of ten thousand blocks has some 30 MiB. */
const MAX_BODY = 128 * 1024 * 1024;

export interface WireRequest {
  readonly method: HttpMethod;
  /** Path and query as they go into the request line. */
  readonly target: string;
  /** Names and values; Host and Content-Length are the transport's. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string | undefined;
  /** Doing twice what it asks does no harm. */
  readonly isRepeatable: boolean;
}

export interface WireAnswer {
  readonly status: number;
  /** Values of the headers of these names; empty when absent. */
  readonly contentType: string;
  readonly retryAfter: string;
  readonly body: string;
}

export interface Exchanged extends WireAnswer {
  /** It may be the answer to a second copy of the request, which `fetch` has sent when the first one's answer was lost. */
  readonly mayBeSecond: boolean;
}

/** The API server and the proxy, and what they are shown and must show. */
export type TransportConfig = Pick<ApiConfig, "server" | "trust" | "proxy">;

export class Transport {
  readonly #config: TransportConfig;
  readonly #root: string;
  readonly #maxBody: number;
  readonly #tls: TlsMaterial | undefined;
  readonly #session: Bun.FetchSession;
  readonly #underWay = new Set<AbortController>();
  readonly #closing = new AbortController();
  /** Connections that were made and trusted. Without TLS, or without judging certificates, they are not seen. */
  #handshakes = 0;
  /** The server has answered, and nothing has failed since. */
  #isProven = false;
  #isClosed = false;

  /** Nothing is connected before the first exchange. */
  constructor(config: TransportConfig, certificate: ClientCertificate | undefined, maxBody = MAX_BODY) {
    const { server, trust, proxy } = config;
    this.#config = config;
    this.#root = `${server.isTls ? "https" : "http"}://${server.authority}`;
    this.#maxBody = maxBody;
    this.#tls = server.isTls ? tlsMaterial(trust, certificate, () => this.#handshakes++) : undefined;
    this.#session = new Bun.FetchSession({ tls: this.#tls, proxy: proxyOption(proxy) });
  }

  /**
   * Sends one request and waits for its answer.
   *
   * @param limitMs for this one try, connecting included
   * @throws TransportError
   */
  async exchange(request: WireRequest, limitMs: number): Promise<Exchanged> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort("late"), limitMs);
    this.#underWay.add(abort);
    if (this.#isClosed) abort.abort("closed");
    const handshakes = this.#handshakes;
    const wasProven = this.#isProven;
    const isNew = () => this.#handshakes > handshakes;
    const body = this.#bodyOf(request);
    try {
      const answer = await this.#ask(request, body, abort.signal);
      this.#isProven = true;
      return { ...answer, mayBeSecond: wasProven && isNew() };
    } catch (error) {
      this.#isProven = false;
      const wasSent = body instanceof CountedBody ? body.wasTaken : wasProven || isNew();
      throw await this.#failure(error, abort.signal, wasSent, limitMs);
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(abort);
    }
  }

  /**
   * Sends a request whose answer is read while it comes, without a limit of time; `close` ends it too.
   *
   * @param limitMs for the beginning of the answer, connecting included
   * @throws TransportError
   */
  async stream(request: Omit<WireRequest, "isRepeatable">, signal: AbortSignal, limitMs: number): Promise<Response> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort("late"), limitMs);
    const ended = AbortSignal.any([signal, late.signal, this.#closing.signal]);
    const handshakes = this.#handshakes;
    try {
      return await this.#session.fetch(this.#root + request.target, {
        method: request.method,
        headers: [...request.headers.map(([name, value]): [string, string] => [name, value]), ["Accept-Encoding", "identity"]],
        body: request.body,
        redirect: "manual",
        signal: ended,
        // The runtime would end a connection that is silent for five minutes.
        timeout: false,
      });
    } catch (error) {
      throw await this.#failure(error, ended, this.#handshakes > handshakes, limitMs);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the idle connections: the next exchange makes a new one. */
  disconnect(): void {
    this.#isProven = false;
    this.#session.close();
  }

  /** Ends the connections; what is under way fails as `broken`. */
  close(): void {
    this.#isClosed = true;
    for (const abort of this.#underWay) abort.abort("closed");
    this.#closing.abort("closed");
    this.disconnect();
  }

  /**
   * `fetch` sends a GET, a PUT and a DELETE once more by itself when a connection that it had kept ends before the answer. For what must
   * not be done twice, and where a second copy could not be noticed by its handshake, the body is one that it cannot send again; after
   * such a body it does not always keep the connection.
   */
  #bodyOf({ method, body, isRepeatable }: WireRequest): string | CountedBody | undefined {
    const isRepeatedByFetch = method === "PUT" || method === "DELETE";
    const isNoticed = this.#tls?.checkServerIdentity !== undefined;
    return isRepeatedByFetch && !(isRepeatable && isNoticed) ? new CountedBody(body ?? "") : body;
  }

  async #ask({ method, target, headers }: WireRequest, body: string | CountedBody | undefined, signal: AbortSignal): Promise<WireAnswer> {
    const lines: [string, string][] = headers.map(([name, value]) => [name, value]);
    lines.push(["Accept-Encoding", "identity"]);
    if (body instanceof CountedBody) lines.push(["Content-Length", String(body.length)]);
    const response = await this.#session.fetch(this.#root + target, {
      method,
      headers: lines,
      redirect: "manual",
      decompress: false,
      signal,
      body: body instanceof CountedBody ? body.stream() : body,
    });
    const encoding = response.headers.get("content-encoding") ?? "identity";
    if (encoding.toLowerCase() !== "identity") throw notUnderstood(`its body has the encoding ${JSON.stringify(encoding)}`);
    return {
      status: response.status,
      contentType: response.headers.get("content-type") ?? "",
      retryAfter: response.headers.get("retry-after") ?? "",
      body: await readBody(response, this.#maxBody),
    };
  }

  async #failure(error: unknown, signal: AbortSignal, wasSent: boolean, limitMs: number): Promise<TransportError> {
    if (error instanceof TransportError) return error;
    const { server, trust, proxy } = this.#config;
    // The proxy's URL may hold a password: only its host is named.
    const destination = `${server.hostname} port ${server.port}${proxy === undefined ? "" : ` through proxy ${new URL(proxy).host}`}`;
    if (signal.reason === "closed")
      return new TransportError("broken", "the connection was closed by this program", { wasSent, cause: error });
    if (signal.aborted) {
      const message = `no answer within ${Math.round(limitMs) / 1000} s from ${destination}`;
      return new TransportError("timeout", message, { wasSent, cause: error });
    }
    const isUnopened = systemErrorCode(error) === "FailedToOpenSocket";
    const unusable = isUnopened && this.#tls !== undefined ? await whatIsUnusable(this.#tls) : undefined;
    if (unusable !== undefined) {
      return new TransportError("untrusted", `tls: a certificate or key of the configuration is unusable: ${unusable}`, { cause: error });
    }
    return failureOf(error, { destination, serverName: trust.serverName ?? server.hostname, wasSent });
  }
}

/** Holds a body that can be sent once, and that knows whether sending it has begun. */
class CountedBody {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  wasTaken = false;

  constructor(text: string) {
    this.#bytes = new TextEncoder().encode(text);
  }

  get length(): number {
    return this.#bytes.length;
  }

  async *stream(): AsyncGenerator<Uint8Array<ArrayBuffer>> {
    this.wasTaken = true;
    yield this.#bytes;
  }
}

/** A hostile peer must not fill the memory of this process: what does not say how long it is, is counted while it is read. */
async function readBody(response: Response, limit: number): Promise<string> {
  const { body, headers } = response;
  const tooLarge = () => notUnderstood(`its body is larger than ${limit} bytes`);
  const length = Number(headers.get("content-length") ?? Number.NaN);
  if (length > limit) {
    await body?.cancel();
    throw tooLarge();
  }
  // Read in one piece, it costs 2 ms less of a process that reads its first answer.
  if (!Number.isNaN(length) && !headers.has("transfer-encoding")) return response.text();
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let count = 0; ; ) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done || value === undefined) return text + decoder.decode();
    count += value.length;
    if (count > limit) {
      await reader?.cancel();
      throw tooLarge();
    }
    text += decoder.decode(value, { stream: true });
  }
}

function notUnderstood(reason: string): TransportError {
  return new TransportError("not-understood", `the answer is not understood: ${reason}`, { wasSent: true });
}
