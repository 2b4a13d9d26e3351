/** A TLS server that says what a test wants, byte by byte if need be, and remembers what it was asked and over how many connections. */
import type { KeyPair } from "./tls-server-certificates.ts";

export interface SeenRequest {
  readonly method: string;
  readonly target: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** 1 for the first connection. */
  readonly connection: number;
  /** Of performance.now(). */
  readonly at: number;
}

/** "close" ends the connection without an answer, "hold" never answers. */
export type Reply =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  | { readonly raw: string | Uint8Array; readonly close?: boolean }
  | "close"
  | "hold";

export type Answering = (request: SeenRequest, index: number) => Reply | Promise<Reply>;

export interface TlsServerOptions {
  /** `undefined`: without TLS. */
  readonly keyPair: KeyPair | undefined;
  /** Clients must show a certificate of this authority. */
  readonly clientAuthority?: string;
  readonly hostname?: string;
  /** Any free one when absent. */
  readonly port?: number;
}

interface Client {
  readonly number: number;
  received: string;
  /** What the socket had no room for yet. */
  rest: Uint8Array;
  busy: Promise<void>;
}

export class TlsServer implements Disposable {
  readonly requests: SeenRequest[] = [];
  /** Names that clients asked for in the handshake (SNI). */
  readonly serverNames: string[] = [];
  connections = 0;
  /** Of those, the ones that have not ended. */
  open = 0;
  readonly #answer: Answering;
  readonly #listener: Bun.TCPSocketListener<Client>;

  constructor(answer: Answering, options: TlsServerOptions) {
    this.#answer = answer;
    const { keyPair, clientAuthority } = options;
    const tls = keyPair && {
      cert: keyPair.certificate,
      key: keyPair.key,
      ...(clientAuthority === undefined ? {} : { ca: clientAuthority, requestCert: true, rejectUnauthorized: true }),
    };
    this.#listener = Bun.listen<Client>({
      hostname: options.hostname ?? "127.0.0.1",
      port: options.port ?? 0,
      ...(tls === undefined ? {} : { tls }),
      socket: {
        open: (socket) => {
          this.open++;
          socket.data = { number: ++this.connections, received: "", rest: new Uint8Array(0), busy: Promise.resolve() };
        },
        close: () => {
          this.open--;
        },
        handshake: (socket) => {
          const name = socket.getServername();
          if (typeof name === "string") this.serverNames.push(name);
        },
        drain: (socket) => write(socket, socket.data.rest),
        data: (socket, bytes) => {
          socket.data.received += new TextDecoder("latin1").decode(bytes);
          this.#read(socket);
        },
      },
    });
  }

  get port(): number {
    return this.#listener.port;
  }

  /** Targets that were asked for, with their methods: "GET /a". */
  get asked(): readonly string[] {
    return this.requests.map(({ method, target }) => `${method} ${target}`);
  }

  [Symbol.dispose](): void {
    this.#listener.stop(true);
  }

  #read(socket: Bun.Socket<Client>): void {
    for (;;) {
      const { received, number } = socket.data;
      const end = received.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [first = "", ...lines] = received.slice(0, end).split("\r\n");
      const headers = Object.fromEntries(
        lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)]),
      );
      const length = Number(headers["content-length"] ?? 0);
      if (received.length < end + 4 + length) return;
      const [method = "", target = ""] = first.split(" ");
      const body = Buffer.from(received.slice(end + 4, end + 4 + length), "latin1").toString("utf8");
      socket.data.received = received.slice(end + 4 + length);
      const request: SeenRequest = { method, target, headers, body, connection: number, at: performance.now() };
      const index = this.requests.push(request) - 1;
      const client = socket.data;
      client.busy = client.busy.then(async () => {
        send(socket, await this.#answer(request, index));
      });
    }
  }
}

function send(socket: Bun.Socket<Client>, reply: Reply): void {
  if (reply === "hold") return;
  if (reply === "close") {
    socket.terminate();
    return;
  }
  if ("raw" in reply) {
    write(socket, Buffer.from(reply.raw));
    if (reply.close === true) socket.end();
    return;
  }
  const body = Buffer.from(reply.body ?? "{}");
  const headers = Object.entries({ "Content-Type": "application/json", ...reply.headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  write(
    socket,
    Buffer.concat([Buffer.from(`HTTP/1.1 ${reply.status} X\r\nContent-Length: ${body.length}\r\n${headers.join("")}\r\n`), body]),
  );
}

function write(socket: Bun.Socket<Client>, bytes: Uint8Array): void {
  socket.data.rest = bytes.subarray(Math.max(socket.write(bytes), 0));
}
