/** The API as a whole: routes, socket, and how both end (A§2.1). */
import type { FastifyRequest } from "fastify";
import { TortieError } from "../../lib/errors/errors.ts";
import type { OperationName } from "../api/operations.ts";
import { accessOf } from "./access.ts";
import type { Handlers } from "./handler.ts";
import { type Listening, listen } from "./listen.ts";
import { buildApp } from "./routes.ts";

export interface ServerInput {
  readonly version: string;
  readonly socket: string;
  /** Number of the group that may read; `undefined` where there is none. */
  readonly group: number | undefined;
  readonly handlers: Handlers;
  onError(message: string, error: unknown): void;
  onAnswer?(operation: OperationName, status: number, milliseconds: number): void;
}

export interface ApiServer {
  /** The OpenAPI 3.1 document. */
  document(): unknown;
  /**
   * Removes the socket, waits for running calls at most so long, then has them told to end and waits for their answers a moment longer.
   */
  stop(graceMs: number): Promise<void>;
}

/** What calls that were told to end have for their answers. */
const LAST_ANSWERS_MS = 1_000;
const LOOK_MS = 10;

export async function serveApi({ version, socket, group, handlers, onError, onAnswer }: ServerInput): Promise<ApiServer> {
  const ending = new AbortController();
  let listening: Listening | undefined;
  let running = 0;
  const app = await buildApp({
    version,
    handlers,
    ending: ending.signal,
    callerOf(request: FastifyRequest) {
      const peer = listening?.peerOf(request.raw.socket);
      return peer === undefined ? undefined : { peer, access: accessOf(peer, group) };
    },
    onDefect: (error) => onError("a request failed over a defect", error),
    ...(onAnswer === undefined ? {} : { onAnswer }),
  });
  app.server.on("request", (_request, response) => {
    running++;
    response.once("close", () => running--);
  });
  listening = await listen(app.server, socket, group, (error) => onError("a connection was refused", error));
  const idle = async (limitMs: number) => {
    const end = performance.now() + limitMs;
    while (running > 0 && performance.now() < end) await Bun.sleep(LOOK_MS);
  };
  return {
    document: () => app.swagger(),
    async stop(graceMs) {
      await listening.stop();
      await idle(graceMs);
      ending.abort(new TortieError("agent-stopping", "the agent was asked to end"));
      await idle(LAST_ANSWERS_MS);
      listening.destroy();
    },
  };
}
