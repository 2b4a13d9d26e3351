/**
 * The agent's way to the API server for watches and for the generated clients: credentials and TLS of lib/kubernetes, answers that are
 * read while they come, and as many requests at one time as are asked for. Repeating is left to the callers: caches list again,
 * controllers run again.
 */
import type { ApiCall } from "../api-client.ts";
import type { ApiConfig } from "../config/api-config.ts";
import { type Session, Sessions, wireRequest } from "./sessions.ts";
import type { Exchanged } from "./transport.ts";
import { TransportError } from "./transport-error.ts";

/** For the beginning of an answer; the whole of it where it is no watch. */
const LIMIT_MS = 15_000;

/** Called for each request when its answer is there, for metrics and health; status 0: no answer came. */
export type OnAnswer = (call: ApiCall, status: number, milliseconds: number) => void;

export class ApiConnection {
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
   * One request and its whole answer, whatever its status. Credentials that are refused are read once more, and the request repeated.
   *
   * @throws TransportError; TortieError `credentials-failed`
   */
  exchange(call: ApiCall, limitMs = LIMIT_MS): Promise<Exchanged> {
    return this.#send(call, (session) => session.transport.exchange(wireRequest(call, session, call.method === "GET"), limitMs));
  }

  /** A GET whose answer is read while it comes; it ends with the signal or with `close`. @throws as `exchange` */
  stream(path: string, signal: AbortSignal, limitMs = LIMIT_MS): Promise<Response> {
    const call = { method: "GET", path } as const;
    return this.#send(call, (session) => session.transport.stream(wireRequest(call, session, true), signal, limitMs));
  }

  /** What must not appear in a message is taken out. */
  redact(text: string): string {
    return this.sessions.secrets.redact(text);
  }

  /** Streams end, and so does whatever is asked later. */
  close(): void {
    this.sessions.close();
  }

  async #send<T extends { readonly status: number }>(call: ApiCall, send: (session: Session) => Promise<T>): Promise<T> {
    for (let isFirst = true; ; isFirst = false) {
      if (this.sessions.isClosed) throw new TransportError("not-connected", "the connection is closed");
      const session = await this.sessions.current();
      const began = performance.now();
      let status = 0;
      try {
        const answer = await send(session);
        status = answer.status;
        if (status !== 401 || !isFirst) return answer;
      } finally {
        this.#onAnswer(call, status, performance.now() - began);
      }
      await this.sessions.renew(session);
    }
  }
}
