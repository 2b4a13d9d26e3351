/**
 * One connection to an API server, TLS or not, straight on the runtime's sockets: 3.8 ms an operation cheaper than its `fetch`
 * (docs/decisions.md). Requests go out in the order they are given, pipelined (RFC 9112, 9.3.2) or each after the answer of the one before.
 */
import { messageOf } from "../../errors/errors.ts";
import { AnswerReader, type ReadAnswer } from "./answer-reader.ts";
import { connectFailure, handshakeFailure, isServerRefused } from "./connect-failure.ts";
import { TransportError, type TransportFailure, type WireAnswer, type WireRequest } from "./transport.ts";

export interface Endpoint {
  readonly hostname: string;
  readonly port: number;
  /** Of the Host header. */
  readonly authority: string;
  /** `undefined`: without TLS. */
  readonly tls: EndpointTls | undefined;
}

export interface EndpointTls {
  /** PEM; `undefined` means the runtime's own list. */
  readonly certificateAuthority: string | undefined;
  /** The name to ask for and to find in the certificate. */
  readonly serverName: string;
  readonly skipVerify: boolean;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
}

interface Exchange {
  readonly bytes: Uint8Array;
  /** How many of them the socket has taken. */
  written: number;
  readonly timer: Timer;
  readonly resolve: (answer: WireAnswer) => void;
  readonly reject: (error: TransportError) => void;
}

type Timer = ReturnType<typeof setTimeout>;
type Socket = Bun.Socket<undefined>;

export class Connection {
  readonly #endpoint: Endpoint;
  readonly #isPipelined: boolean;
  readonly #reader = new AnswerReader();
  /** Those without an answer, oldest first; the first `#sent` of them are with the socket, wholly or in part. */
  readonly #exchanges: Exchange[] = [];
  #sent = 0;
  #socket: Socket | undefined;
  #isReady = false;
  #isClosed = false;

  constructor(endpoint: Endpoint, isPipelined: boolean) {
    const { hostname, port } = endpoint;
    this.#endpoint = endpoint;
    this.#isPipelined = isPipelined;
    this.#open().catch((error: unknown) => {
      const { failure, message } = connectFailure(error, hostname, port);
      this.#fail(failure, message, error);
    });
  }

  /** Nothing more can be asked of it. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isIdle(): boolean {
    return this.#exchanges.length === 0;
  }

  /** @throws TransportError */
  exchange(request: WireRequest, limitMs: number): Promise<WireAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<WireAnswer>();
    const timer = setTimeout(() => this.#timeOut(exchange, limitMs), limitMs);
    const exchange: Exchange = { bytes: encodeRequest(request, this.#endpoint.authority), written: 0, timer, resolve, reject };
    this.#exchanges.push(exchange);
    this.#socket?.ref();
    if (this.#isReady) this.#flush();
    return promise;
  }

  close(): void {
    this.#fail("broken", "the connection was closed by this program");
  }

  async #open(): Promise<void> {
    const { hostname, port, tls } = this.#endpoint;
    await Bun.connect<undefined>({
      hostname,
      port,
      ...(tls === undefined ? {} : { tls: tlsOptions(tls) }),
      socket: {
        open: (socket) => {
          this.#socket = socket;
          if (this.#isClosed) socket.terminate();
          else if (tls === undefined) this.#ready();
        },
        handshake: (_socket, isTrusted, error) => this.#shakeHands(isTrusted, error),
        data: (_socket, bytes) => this.#receive(bytes),
        drain: () => {
          if (this.#isReady) this.#flush();
        },
        end: () => this.#ended(),
        close: (_socket, error) => this.#ended(error),
        error: (_socket, error) => this.#ended(error),
        // The promise says the same.
        connectError: () => {},
      },
    });
  }

  #ready(): void {
    this.#isReady = true;
    if (this.isIdle) this.#socket?.unref();
    this.#flush();
  }

  #shakeHands(isTrusted: boolean, error: Error | null): void {
    if (this.#isClosed) return;
    const { tls, hostname, port } = this.#endpoint;
    const isRefused = error !== null && error !== undefined && isServerRefused(error);
    if (isRefused && tls?.skipVerify !== true) {
      this.#fail("untrusted", handshakeFailure(error, tls?.serverName ?? hostname), error);
    } else if (!isRefused && !isTrusted) {
      this.#fail("not-connected", `the TLS handshake with ${hostname} port ${port} was not completed`, error ?? undefined);
    } else this.#ready();
  }

  #flush(): void {
    while (this.#sent <= this.#exchanges.length) {
      const current = this.#exchanges[this.#sent - 1];
      if (current === undefined || current.written === current.bytes.length) {
        const next = this.#exchanges[this.#sent];
        if (next === undefined || (current !== undefined && !this.#isPipelined)) return;
        this.#sent++;
        continue;
      }
      const taken = this.#socket?.write(current.written === 0 ? current.bytes : current.bytes.subarray(current.written)) ?? 0;
      if (taken > 0) current.written += taken;
      // The socket says when it has room again.
      if (current.written < current.bytes.length) return;
    }
  }

  #receive(bytes: Uint8Array): void {
    if (this.#isClosed) return;
    try {
      this.#reader.push(bytes);
      for (let answer = this.#reader.next(); answer !== undefined; answer = this.#reader.next()) {
        if (!this.#deliver(answer)) return;
      }
    } catch (error) {
      this.#fail("not-understood", `the answer is not understood: ${messageOf(error)}`, error);
    }
    if (this.#exchanges.length === 0 && this.#reader.isInside) this.#fail("broken", "the server said something that nobody asked for");
  }

  /** @returns whether another answer may follow */
  #deliver(answer: ReadAnswer): boolean {
    const exchange = this.#exchanges[0];
    // An answer before the whole question: whatever comes next cannot be told apart.
    const isEarly = exchange !== undefined && exchange.written < exchange.bytes.length;
    if (exchange !== undefined) {
      this.#exchanges.shift();
      this.#sent--;
      clearTimeout(exchange.timer);
      exchange.resolve(answer);
    }
    if (exchange === undefined || isEarly || answer.isLast) {
      this.#fail("broken", "the server ended the connection after another answer");
      return false;
    }
    if (this.isIdle) this.#socket?.unref();
    else this.#flush();
    return true;
  }

  #ended(error?: unknown): void {
    if (this.#isClosed) return;
    const last = this.#isReady ? this.#reader.end() : undefined;
    if (last !== undefined) {
      this.#deliver(last);
      return;
    }
    const reason = error === undefined || error === null ? "" : ` (${messageOf(error)})`;
    // A load balancer without servers takes connections too, and ends them at once.
    const when = this.#isReady ? (this.#reader.isInside ? "in the middle of its answer" : "before it answered") : "before it could be used";
    this.#fail(this.#isReady ? "broken" : "not-connected", `the server ended the connection ${when}${reason}`, error);
  }

  #timeOut(exchange: Exchange, limitMs: number): void {
    const what = this.#isReady ? "no answer" : `no connection to ${this.#endpoint.hostname} port ${this.#endpoint.port}`;
    const index = this.#exchanges.indexOf(exchange);
    if (index < 0) return;
    this.#exchanges.splice(index, 1);
    exchange.reject(new TransportError("timeout", `${what} within ${Math.round(limitMs) / 1000} s`, { wasSent: exchange.written > 0 }));
    // Its answer may still come and would be taken for another's.
    this.#fail("broken", "the connection was given up, because another request was not answered in time");
  }

  /** Ends the connection. What the oldest exchange suffers from, those behind it only suffer as an end of the connection. */
  #fail(failure: TransportFailure, message: string, cause?: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isReady = false;
    this.#socket?.terminate();
    let own = failure;
    for (const { reject, timer, written } of this.#exchanges.splice(0)) {
      clearTimeout(timer);
      reject(new TransportError(own, message, { wasSent: written > 0, cause }));
      if (own === "not-understood") own = "broken";
    }
    this.#sent = 0;
  }
}

function tlsOptions(tls: EndpointTls): Bun.TLSOptions {
  return {
    rejectUnauthorized: !tls.skipVerify,
    serverName: tls.serverName,
    ...(tls.certificateAuthority === undefined ? {} : { ca: tls.certificateAuthority }),
    ...(tls.certificate === undefined || tls.key === undefined ? {} : { cert: tls.certificate, key: tls.key }),
  };
}

function encodeRequest({ method, target, headers, body }: WireRequest, authority: string): Uint8Array {
  let head = `${method} ${target} HTTP/1.1\r\nHost: ${authority}\r\n`;
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`;
  const encoder = new TextEncoder();
  if (body === undefined) return encoder.encode(`${head}\r\n`);
  const bytes = encoder.encode(body);
  const start = encoder.encode(`${head}Content-Length: ${bytes.length}\r\n\r\n`);
  const all = new Uint8Array(start.length + bytes.length);
  all.set(start);
  all.set(bytes, start.length);
  return all;
}
