/** /livez, /readyz, /healthz and /metrics on a TCP port of the loopback, for kubelet and Prometheus (A§8.3). */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { Health } from "./health.ts";

const ADDRESS = "127.0.0.1";
const OK = 200;
const NOT_NOW = 503;

export interface HealthServerOptions {
  /** 0 takes any free port; a caller that wants no server does not start one. */
  readonly port: number;
  readonly health: Pick<Health, "notReady" | "notLive" | "document">;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
}

export interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

/** @throws an error of node:net, EADDRINUSE where the port is taken */
export async function startHealthServer({ port, health, metrics }: HealthServerOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) return void answer(response, 405, "text/plain", "only GET\n");
    if (path === "/livez") return void sayReasons(response, health.notLive());
    if (path === "/readyz") return void sayReasons(response, health.notReady());
    if (path === "/healthz") {
      const document = health.document();
      const status = document.state === "failure" ? NOT_NOW : OK;
      return void answer(response, status, "application/json", `${JSON.stringify(document, undefined, 2)}\n`);
    }
    if (path !== "/metrics") return void answer(response, 404, "text/plain", "try /livez, /readyz, /healthz or /metrics\n");
    metrics.text().then(
      (text) => answer(response, OK, metrics.contentType, text),
      () => answer(response, 500, "text/plain", "the figures cannot be read\n"),
    );
  });
  await listen(server, port);
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function sayReasons(response: ServerResponse, reasons: readonly string[]): void {
  answer(response, reasons.length === 0 ? OK : NOT_NOW, "text/plain", reasons.length === 0 ? "ok\n" : `${reasons.join("\n")}\n`);
}

function answer(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { "content-type": type });
  response.end(text);
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, ADDRESS, () => {
      server.removeListener("error", reject);
      resolve();
    });
  });
}
