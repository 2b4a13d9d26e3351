/**
 * Stands between a plugin and the API server, ends TLS with the server's own certificate, and does to chosen requests what networks and
 * overloaded servers do. Callers that prove themselves by a token are passed on as they are; client certificates are not.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, request as forward, type RequestOptions, type Server } from "node:https";
import type { Socket } from "node:net";
import { join } from "node:path";
import { forwarderPidFile } from "./connect-node.ts";
import type { Identity } from "./install.ts";
import { endProcess, pause, readPid } from "./process.ts";
import type { TestCluster } from "./test-cluster.ts";

export type Fault =
  /** The server does what it is asked; its answer never arrives, and the connection breaks. */
  | { readonly kind: "lose-answer" }
  /** The server is asked twice, as by somebody on the way who repeats what seems to be lost; the caller hears the second answer. */
  | { readonly kind: "twice" }
  /** The connection breaks before the server hears of the request. */
  | { readonly kind: "cut" }
  /** The request is neither passed on nor answered, and the connection stays. */
  | { readonly kind: "hang" }
  | { readonly kind: "delay"; readonly ms: number }
  /** The proxy answers itself, as the API server would. */
  | { readonly kind: "answer"; readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly message?: string }
  /** The proxy refuses, and shows the request that it refuses, as firewalls for the web and debugging proxies do. */
  | { readonly kind: "echo"; readonly status: number; readonly type: string; readonly write: (head: string) => string }
  /** The answer is about something else: the server is asked for that instead. */
  | { readonly kind: "mix-up"; readonly path: string }
  /** The test does something first, for instance changes an object; then the request goes on. */
  | { readonly kind: "before"; readonly action: () => unknown };

export interface Match {
  readonly method?: string;
  /** Part of path and query, or a pattern for them. */
  readonly path?: string | RegExp;
  /** The bearer token that the request carries. */
  readonly token?: string;
  /** The first matching request that it happens to, counted from 1; the first when absent. */
  readonly nth?: number;
  /** How many in a row; 1 when absent, Infinity for all that follow. */
  readonly times?: number;
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Number of the TLS connection it came on, from 1. */
  readonly connection: number;
  /** What the caller was answered; `undefined` when nothing was. */
  status: number | undefined;
}

interface Rule {
  readonly match: Match;
  readonly fault: Fault;
  seen: number;
}

export class FaultProxy implements AsyncDisposable {
  /** Every request that arrived, in order. */
  readonly requests: SeenRequest[] = [];
  /** TLS connections that were made. */
  connections = 0;
  /** Directory of its certificate, server.crt, and the key; read by `accept`. */
  certificates: string;
  readonly #cluster: TestCluster;
  #server: Server | undefined;
  #port = 0;
  readonly #rules: Rule[] = [];
  readonly #sockets = new Map<Socket, number>();
  /** The server's side of each watch. */
  readonly #watches = new Set<IncomingMessage>();
  #isWatchFrozen = false;

  private constructor(cluster: TestCluster) {
    this.#cluster = cluster;
    this.certificates = cluster.dir;
  }

  /** @internal Use `TestCluster.proxy`. */
  static async start(cluster: TestCluster): Promise<FaultProxy> {
    const proxy = new FaultProxy(cluster);
    await proxy.accept();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  /** The cluster's directory. */
  get dir(): string {
    return this.#cluster.dir;
  }

  get server(): string {
    return `https://127.0.0.1:${this.#port}`;
  }

  /** A kubeconfig that leads here. */
  kubeconfigFor(identity: Identity): Promise<string> {
    return this.#cluster.kubeconfigFor(identity, this.server);
  }

  /** From now on `fault` happens to what matches. Of several rules for a request the one set first counts. */
  on(match: Match, fault: Fault): this {
    this.#rules.push({ match, fault, seen: 0 });
    return this;
  }

  /** Forgets rules and what was seen. */
  clear(): void {
    this.#rules.length = 0;
    this.requests.length = 0;
    this.connections = 0;
  }

  /** Connections are refused from now on, and those that are open break. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = new Promise((done) => (server === undefined ? done(undefined) : server.close(done)));
    const breakAll = (): void => {
      this.breakConnections();
      server?.closeAllConnections();
    };
    breakAll();
    // A connection that was in its handshake just now comes to light afterwards, and would keep the server from being closed.
    const again = setInterval(breakAll, 10);
    await closed;
    clearInterval(again);
  }

  /** Takes connections again, at the same port. */
  async accept(): Promise<void> {
    const file = (name: string) => readFileSync(join(this.certificates, name));
    const server = createServer(
      { cert: file("server.crt"), key: file("server.key") },
      (request, response) => void this.#serve(request, response),
    );
    server.keepAliveTimeout = 0;
    server.on("secureConnection", (socket: Socket) => {
      this.#sockets.set(socket, ++this.connections);
      socket.on("error", () => undefined);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    // A client that goes away in the middle of a handshake is no failure of the test.
    server.on("tlsClientError", () => undefined);
    await new Promise<void>((done, failed) => {
      server.on("error", failed);
      server.listen(this.#port, "127.0.0.1", () => done());
    });
    const address = server.address();
    if (typeof address === "object" && address !== null) this.#port = address.port;
    this.#server = server;
  }

  /** Watches stay open and say nothing, as behind a connection that died unnoticed; everything else is answered. */
  freezeWatches(): void {
    this.#isWatchFrozen = true;
    for (const watch of this.#watches) watch.pause();
  }

  /** What they have missed comes all at once. */
  thawWatches(): void {
    this.#isWatchFrozen = false;
    for (const watch of this.#watches) watch.resume();
  }

  breakConnections(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
    this.#sockets.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse();
    await endProcess(readPid(forwarderPidFile(this)));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request);
    const { method = "", url = "" } = request;
    const connection = this.#sockets.get(request.socket) ?? 0;
    const seen: SeenRequest = { method, path: url, body: body.toString(), headers: request.headers, connection, status: undefined };
    this.requests.push(seen);
    const fault = this.#faultFor(seen);
    if (fault?.kind === "hang") return;
    if (fault?.kind === "cut") return void request.socket.destroy();
    if (fault?.kind === "answer") {
      seen.status = fault.status;
      return void respond(response, fault.status, { "content-type": "application/json", ...fault.headers }, statusBody(fault));
    }
    if (fault?.kind === "echo") {
      seen.status = fault.status;
      const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}`);
      const echoed = fault.write([`${method} ${url} HTTP/1.1`, ...lines].join("\r\n"));
      return void respond(response, fault.status, { "content-type": fault.type }, echoed);
    }
    if (fault?.kind === "delay") await pause(fault.ms);
    if (fault?.kind === "before") await fault.action();
    if (/[?&]watch=(true|1)(&|$)/.test(url) && fault?.kind !== "lose-answer") return this.#passOn(request, response, seen);
    try {
      if (fault?.kind === "twice") await this.#ask(request, body, url);
      const answer = await this.#ask(request, body, fault?.kind === "mix-up" ? fault.path : url);
      if (fault?.kind === "lose-answer") return void request.socket.destroy();
      seen.status = answer.status;
      respond(response, answer.status, answer.headers, answer.body);
    } catch {
      // The server is not there: to the caller it looks like a connection that broke.
      request.socket.destroy();
    }
  }

  #faultFor(request: SeenRequest): Fault | undefined {
    let chosen: Fault | undefined;
    for (const rule of this.#rules) {
      const { nth = 1, times = 1 } = rule.match;
      if (!matches(rule.match, request)) continue;
      rule.seen++;
      if (chosen === undefined && rule.seen >= nth && rule.seen < nth + times) chosen = rule.fault;
    }
    return chosen;
  }

  /** A watch: its events are passed on as they come, until either side ends it. */
  #passOn(request: IncomingMessage, response: ServerResponse, seen: SeenRequest): void {
    const outgoing = forward(this.#options(request, Buffer.alloc(0), seen.path), (answer) => {
      seen.status = answer.statusCode;
      response.writeHead(answer.statusCode ?? 0, { "content-type": answer.headers["content-type"] ?? "" });
      response.flushHeaders();
      this.#watches.add(answer);
      answer.on("data", (chunk) => response.write(chunk));
      answer.on("close", () => this.#watches.delete(answer));
      if (this.#isWatchFrozen) answer.pause();
      answer.on("end", () => response.end());
      answer.on("error", () => request.socket.destroy());
      answer.on("aborted", () => request.socket.destroy());
    });
    outgoing.on("error", () => request.socket.destroy());
    response.on("close", () => outgoing.destroy());
    outgoing.end();
  }

  #options(request: IncomingMessage, body: Buffer, path: string): RequestOptions {
    const { connection: _connection, "transfer-encoding": _encoding, ...headers } = request.headers;
    return {
      host: "127.0.0.1",
      port: this.#cluster.port,
      method: request.method,
      path,
      headers: { ...headers, "content-length": String(body.length) },
      ca: readFileSync(this.#cluster.caPath),
      agent: false,
    };
  }

  /** The same request to the real server, on a connection of its own. */
  #ask(
    request: IncomingMessage,
    body: Buffer,
    path: string,
  ): Promise<{ status: number; headers: IncomingMessage["headers"]; body: Buffer }> {
    return new Promise((done, failed) => {
      const outgoing = forward(this.#options(request, body, path), (answer) => {
        bodyOf(answer).then((text) => done({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }), failed);
      });
      outgoing.on("error", failed);
      outgoing.end(body);
    });
  }
}

function matches(match: Match, { method, path, headers }: SeenRequest): boolean {
  if (match.token !== undefined && headers.authorization !== `Bearer ${match.token}`) return false;
  if (match.method !== undefined && match.method !== method) return false;
  if (match.path === undefined) return true;
  return typeof match.path === "string" ? path.includes(match.path) : match.path.test(path);
}

function respond(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  body: Buffer | string,
): void {
  response.statusCode = status;
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !["connection", "transfer-encoding", "content-length", "content-encoding"].includes(name))
      response.setHeader(name, value);
  }
  response.setHeader("content-length", Buffer.byteLength(body));
  response.end(body);
}

/** meta.k8s.io Status, as the API server explains a refusal. */
function statusBody(fault: Extract<Fault, { kind: "answer" }>): string {
  const reasons: Readonly<Record<number, string>> = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    429: "TooManyRequests",
  };
  const reason = reasons[fault.status] ?? "InternalError";
  const message = fault.message ?? `${reason} (made by the test)`;
  return JSON.stringify({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code: fault.status });
}

async function bodyOf(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}
