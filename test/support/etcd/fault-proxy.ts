/** Stands between plugins and one member of etcd, and does to one chosen request what networks do. */
import { createServer, request as forward, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { TestEtcd } from "./etcd.ts";

/** `cut`: the connection breaks before etcd hears of the request. `lose-answer`: etcd does it, and the answer never arrives. */
export type Fault = "cut" | "lose-answer";

/** What a plugin asks: "/v3/kv/txn", and the JSON of the request. */
export interface AskedOfEtcd {
  readonly path: string;
  readonly body: string;
}

export class EtcdFaultProxy implements AsyncDisposable {
  readonly dir: string;
  readonly #etcd: TestEtcd;
  readonly #server: Server;
  #seen = 0;
  #fault: { readonly at: number; readonly kind: Fault } | undefined;
  #onRequest: (asked: AskedOfEtcd) => Promise<unknown> = async () => undefined;

  private constructor(etcd: TestEtcd) {
    this.dir = etcd.dir;
    this.#etcd = etcd;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(etcd: TestEtcd): Promise<EtcdFaultProxy> {
    const proxy = new EtcdFaultProxy(etcd);
    await new Promise<void>((done, failed) => {
      proxy.#server.on("error", failed);
      proxy.#server.listen(0, "127.0.0.1", () => done());
    });
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** Requests since the last `set`. */
  get seen(): number {
    return this.#seen;
  }

  /** From now on the request of this number, counted from 1, meets the fault, once. */
  set(at: number, kind: Fault): void {
    this.#seen = 0;
    this.#fault = { at, kind };
  }

  /** Called with each request, and awaited before etcd hears of it: what a second client writes just then is in the way of a plugin. */
  beforeEach(onRequest: (asked: AskedOfEtcd) => Promise<unknown>): void {
    this.#onRequest = onRequest;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    const fault = ++this.#seen === this.#fault?.at ? this.#fault.kind : undefined;
    if (fault === "cut") return void request.socket.destroy();
    const { method, url, headers } = request;
    await this.#onRequest({ path: url ?? "", body: Buffer.concat(chunks).toString() });
    const onward = forward({ host: "127.0.0.1", port: this.#etcd.port, method, path: url, headers }, (answer) => {
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("end", () => {
        if (fault === "lose-answer") return void request.socket.destroy();
        response.writeHead(answer.statusCode ?? 502, { ...answer.headers, connection: "keep-alive" });
        response.end(Buffer.concat(parts));
      });
    });
    onward.on("error", () => request.socket.destroy());
    onward.end(Buffer.concat(chunks));
  }
}
