/**
 * Serves /livez, /readyz, /healthz and /metrics on a TCP port of the loopback, for kubelet and Prometheus (A§8.3); and where it is asked
 * for, /metrics alone on an address that others reach.
 */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { createServer as createAcceptor } from "node:net";
import { messageOf } from "../errors/errors.ts";
import { limitConnections } from "./connections.ts";
import type { Health } from "./health.ts";

const LOOPBACK = "127.0.0.1";
const OK = 200;
const NOT_NOW = 503;
/** Connections at once, whoever has made them: any user of the host reaches the port, and each takes a descriptor. */
const MOST_CONNECTIONS = 64;
/** Between two tries of a port that somebody else has. */
const RETRY_MS = 5_000;

interface HealthServerOptions {
  /** Where it listens; default: the loopback. */
  readonly host?: string | undefined;
  /** 0 takes any free port; a caller that wants no server does not start one. */
  readonly port: number;
  /** Absent: /metrics is the only page. */
  readonly health?: Pick<Health, "notReady" | "notLive" | "document">;
  readonly metrics: { readonly contentType: string; text(): Promise<string> };
}

interface HealthServer extends AsyncDisposable {
  readonly port: number;
}

/** @throws an error of node:net, EADDRINUSE where the port is taken */
export async function startHealthServer({ host = LOOPBACK, port, health, metrics }: HealthServerOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (!isRead) return void answer(response, 405, "text/plain", "only GET\n");
    if (path !== "/metrics" && health === undefined) return void answer(response, 404, "text/plain", "the only page is /metrics\n");
    if (path === "/livez" && health !== undefined) return void sayReasons(response, health.notLive());
    if (path === "/readyz" && health !== undefined) return void sayReasons(response, health.notReady());
    if (path === "/healthz" && health !== undefined) {
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
  const connections = limitConnections(server, () => MOST_CONNECTIONS);
  const acceptor = createAcceptor((socket) => connections.serve(socket, 0));
  try {
    acceptor.listen(port, host);
    await once(acceptor, "listening");
  } catch (error) {
    connections.stop();
    throw error;
  }
  const address = acceptor.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    async [Symbol.asyncDispose]() {
      connections.stop();
      await new Promise((resolve) => acceptor.close(resolve));
    },
  };
}

/** What becomes of a port that may be somebody else's. */
interface PortListener {
  onServed(port: number): void;
  /** Runs once, however often the port is tried after that. */
  onTaken(error: unknown): void;
}

/** Serves as soon as the port is free: one that somebody else has is tried again every few seconds. Returns after the first try. */
export async function keepHealthServed(options: HealthServerOptions, { onServed, onTaken }: PortListener): Promise<AsyncDisposable> {
  let server: HealthServer | undefined;
  let timer: NodeJS.Timeout | undefined;
  let isEnding = false;
  const attempt = async (isFirst: boolean): Promise<void> => {
    try {
      const opened = await startHealthServer(options);
      if (isEnding) return await opened[Symbol.asyncDispose]();
      server = opened;
      onServed(opened.port);
    } catch (error) {
      if (isFirst) onTaken(error);
      if (isEnding) return;
      timer = setTimeout(() => void attempt(false), RETRY_MS);
      timer.unref();
    }
  };
  await attempt(true);
  return {
    async [Symbol.asyncDispose]() {
      isEnding = true;
      clearTimeout(timer);
      await server?.[Symbol.asyncDispose]();
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

/** For the table of options: an IPv4 address, or an IPv6 address in brackets, and a port. */
export const METRICS_ADDRESS_OPTION = {
  group: "Process",
  type: "string",
  pattern: "^(\\d{1,3}(\\.\\d{1,3}){3}|\\[[0-9a-fA-F:.]+\\]):\\d{1,5}$",
  description:
    "Address and port of /metrics for a Prometheus elsewhere, for instance 0.0.0.0:9881 or [::]:9881: figures alone, without TLS, for " +
    "whoever reaches it; default: none, and /metrics is on the health port",
} as const;

/** What the finding and the log are about. */
interface Told {
  /** `undefined`: it is served. */
  finding(text: string | undefined): void;
  info(message: string, fields: Readonly<Record<string, unknown>>): void;
  error(message: string): void;
}

/** Serves the figures there, as soon as the address is there and the port free. @param address as the option has it; `undefined`: nothing is served */
export async function serveMetrics(
  address: string | undefined,
  metrics: HealthServerOptions["metrics"],
  told: Told,
): Promise<AsyncDisposable | undefined> {
  if (address === undefined) return undefined;
  const colon = address.lastIndexOf(":");
  const [host, port] = [address.slice(0, colon).replaceAll(/[[\]]/g, ""), Number(address.slice(colon + 1))];
  const listener: PortListener = {
    onServed(opened) {
      told.finding(undefined);
      told.info("figures are served", { address: host, port: opened });
    },
    onTaken(error) {
      const finding = `${address} for /metrics cannot be opened, and is tried again: ${messageOf(error)}`;
      told.finding(finding);
      told.error(finding);
    },
  };
  return keepHealthServed({ host, port, metrics }, listener);
}
