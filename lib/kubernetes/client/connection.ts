/**
 * Connects the agent to the API server for watches and for the generated clients: credentials and TLS of lib/kubernetes, answers that are
 * read while they come, and as many requests at one time as are asked for. Repeating is left to the callers: caches list again,
 * controllers run again. And the session of any client, with the one that follows it: credentials expire, and a server may refuse them
 * before that.
 */

import { Secrets } from "../../log/secrets.ts";
import type { ApiCall, ApiFault } from "../api-client.ts";
import type { ApiConfig, ClientCertificate } from "../config/api-config.ts";
import { tlsMaterial } from "./tls.ts";
import type { Exchanged } from "./transport.ts";
import { Transport, type WireRequest } from "./transport.ts";
import { isTrustFailure, TransportError, transportErrorOr } from "./transport-error.ts";
import { TrustReads } from "./trust-reads.ts";

/** Limits the wait for the beginning of an answer, or for all of it where it is not a watch. */
const LIMIT_MS = 15_000;

/** Runs for each request when its answer is there, for metrics and health; status 0: no answer came, perhaps for a fault. */
export type OnAnswer = (call: ApiCall, status: number, milliseconds: number, fault: ApiFault | undefined) => void;

export class ApiConnection implements Disposable {
  readonly server: string;
  protected readonly sessions: Sessions;
  readonly #onAnswer: OnAnswer;

  /** Nothing is connected before the first call. */
  constructor(config: ApiConfig, onAnswer: OnAnswer = () => {}) {
    this.server = config.server.url;
    this.sessions = new Sessions(config);
    this.#onAnswer = onAnswer;
  }

  /**
   * Sends one request and reads its whole answer, whatever its status. Credentials and certificates that are refused are read once more,
   * and the request repeated.
   *
   * @throws TransportError; TortieError `credentials-failed`
   */
  exchange(call: ApiCall, limitMs = LIMIT_MS): Promise<Exchanged> {
    return this.#send(call, (session) => session.transport.exchange(wireRequest(call, session, call.method === "GET"), limitMs));
  }

  /** Sends a GET whose answer is read while it comes; it ends with the signal or with `close`. @throws as `exchange` */
  stream(asked: Pick<ApiCall, "path" | "accept">, signal: AbortSignal, limitMs = LIMIT_MS): Promise<Response> {
    const call = { method: "GET", ...asked } as const;
    return this.#send(call, (session) => session.transport.stream(wireRequest(call, session, true), signal, limitMs));
  }

  /** Begins a WebSocket, in our name and judging the server as requests do; whoever asks for it closes it. @throws TortieError `credentials-failed` */
  async socket(path: string, protocols: readonly string[]): Promise<WebSocket> {
    const { config, headers, certificate } = await this.sessions.current();
    const { server, trust, proxy } = config;
    return new WebSocket(`${server.isTls ? "wss" : "ws"}://${server.authority}${server.basePath}${path}`, {
      protocols: [...protocols],
      headers: Object.fromEntries(headers.filter(([name]) => name !== "Accept")),
      ...(server.isTls && { tls: tlsMaterial(trust, certificate, () => {}) }),
      ...(proxy !== undefined && { proxy }),
    });
  }

  /** Takes out what must not appear in a message. */
  redact(text: string): string {
    return this.sessions.secrets.redact(text);
  }

  /** Streams end, and so does whatever is asked later. */
  close(): void {
    this.sessions.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #send<T extends { readonly status: number }>(call: ApiCall, send: (session: Session) => Promise<T>): Promise<T> {
    for (let isFirst = true; ; isFirst = false) {
      if (this.sessions.isClosed) throw new TransportError("not-connected", "the connection is closed");
      const session = await this.sessions.current();
      const began = performance.now();
      const outcome = await transportErrorOr(() => send(session));
      const failure = outcome instanceof TransportError ? outcome : undefined;
      this.#onAnswer(call, outcome instanceof TransportError ? 0 : outcome.status, performance.now() - began, failure?.fault);
      if (isFirst && (await this.sessions.isRenewed(session, outcome))) continue;
      if (outcome instanceof TransportError) throw outcome;
      return outcome;
    }
  }
}

export class Sessions {
  /** Secrets that no message may ever show: a server may repeat one late. */
  readonly secrets = new Secrets();
  #config: ApiConfig;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #isClosed = false;
  readonly #trustReads = new TrustReads();

  /** Nothing is connected, and no credential plugin run, before the first `current`. */
  constructor(config: ApiConfig) {
    this.#config = config;
  }

  get config(): ApiConfig {
    return this.#config;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** @throws TortieError `credentials-failed` */
  async current(): Promise<Session> {
    return this.#session !== undefined && !isExpired(this.#session) ? this.#session : await this.#open(this.#session);
  }

  /**
   * Reads credentials and trust again if the server refused ours, or we refused its certificate: both are replaced while programs run.
   * @returns whether the request is worth another try
   * @throws TortieError
   */
  async isRenewed(session: Session, outcome: { readonly status: number } | TransportError): Promise<boolean> {
    const isUntrusted = outcome instanceof TransportError && isTrustFailure(outcome);
    if (!isUntrusted && (outcome instanceof TransportError || outcome.status !== 401)) return false;
    if (this.#session !== session) return true;
    if (isUntrusted && !this.#trustReads.isDue()) return false;
    if (this.#opening === undefined) this.#config = this.#config.reload();
    const { transport } = await this.#open(session);
    return !isUntrusted || transport !== session.transport;
  }

  close(): void {
    this.#isClosed = true;
    this.#session?.transport.close();
  }

  /** Opens one new session for all that wait for one. @throws TortieError */
  #open(former: Session | undefined): Promise<Session> {
    this.#opening ??= openSession(this.#config, former)
      .then((session) => {
        this.#session = session;
        this.#keepSecret(session);
        if (this.#isClosed) session.transport.close();
        return session;
      })
      .finally(() => {
        this.#opening = undefined;
      });
    return this.#opening;
  }

  #keepSecret({ config, headers, certificate }: Session): void {
    for (const [name, value] of headers) if (name === "Authorization") this.secrets.addAuthorization(value);
    this.secrets.addKey(certificate?.key);
    this.secrets.addPasswordOf(config.proxy);
  }
}

function isExpired({ expiresAt }: Session): boolean {
  return expiresAt !== undefined && expiresAt <= Date.now();
}

declare const TORTIE_VERSION: string | undefined;

/** How API servers know us in their logs. The build puts the version in (scripts/build). */
const USER_AGENT = `tortie/${typeof TORTIE_VERSION === "string" ? TORTIE_VERSION : "0.0.0-source"}`;

export interface Session {
  readonly config: ApiConfig;
  readonly transport: Transport;
  readonly headers: readonly (readonly [string, string])[];
  /** Milliseconds since 1970 after which the credentials count no more; `undefined` when they do not say. */
  readonly expiresAt: number | undefined;
  readonly certificate: ClientCertificate | undefined;
}

/**
 * Finds out who we are on a connection: our certificate, and the headers that every request carries. Runs the credential plugin if there
 * is one. A former session's connection is kept where the new one would be made alike.
 *
 * @throws TortieError `credentials-failed`
 */
async function openSession(config: ApiConfig, former: Session | undefined): Promise<Session> {
  const { identity } = config;
  let { certificate, authorization } = identity;
  let expiresAt: number | undefined;
  if (identity.plugin !== undefined) {
    const { runCredentialPlugin } = await import("./credential-plugin.ts");
    const credentials = await runCredentialPlugin(identity.plugin, identity.description);
    certificate = credentials.certificate ?? certificate;
    authorization = credentials.authorization ?? authorization;
    expiresAt = credentials.expiresAt;
  }
  const headers: (readonly [string, string])[] = [
    ["User-Agent", USER_AGENT],
    ["Accept", "application/json"],
  ];
  if (authorization !== undefined) headers.push(["Authorization", authorization]);
  headers.push(...identity.headers);
  const isAlike = former !== undefined && fingerprint(former.config, former.certificate) === fingerprint(config, certificate);
  if (isAlike) return { config, transport: former.transport, headers, expiresAt, certificate };

  former?.transport.close();
  return { config, transport: new Transport(config, certificate), headers, expiresAt, certificate };
}

/** Writes a call as it goes out in a session. @param isRepeatable doing twice what it asks does no harm */
export function wireRequest(
  { method, path, body, contentType = "application/json", accept }: ApiCall,
  { config, headers: own }: Session,
  isRepeatable: boolean,
): WireRequest {
  const headers = accept === undefined ? own : own.map(([name, value]) => [name, name === "Accept" ? accept : value] as const);
  return {
    method,
    target: config.server.basePath + path,
    headers: body === undefined ? headers : [...headers, ["Content-Type", contentType]],
    body,
    isRepeatable,
  };
}

function fingerprint({ server, trust, proxy }: ApiConfig, certificate: ClientCertificate | undefined): string {
  return JSON.stringify([server, trust, proxy, certificate]);
}
