/** Opens the API as a whole: routes, socket, and how both end (A§2.1). */
import { accessOf } from "./access.ts";
import { buildApp, type RoutesInput } from "./routes.ts";
import { type Listening, listen } from "./socket.ts";

export interface ServerInput extends Pick<RoutesInput, "version" | "handlers" | "onAnswer"> {
  readonly socket: string;
  /** Number of the group that may read; `undefined` where there is none. */
  readonly group: number | undefined;
  onError(message: string, error: unknown): void;
}

export interface ApiServer {
  /** Removes the socket, waits for running calls at most so long and a moment longer, and ends the connections that are left. */
  stop(graceMs: number): Promise<void>;
}

/** What calls have for their answers beyond the grace. */
const LAST_ANSWERS_MS = 1_000;
const LOOK_MS = 10;

export async function serveApi({ socket, group, onError, ...routes }: ServerInput): Promise<ApiServer> {
  let listening: Listening | undefined;
  let running = 0;
  const app = await buildApp({
    ...routes,
    callerOf(request) {
      const peer = listening?.peerOf(request.raw.socket);
      return peer && { peer, access: accessOf(peer, group) };
    },
    onDefect: (error) => onError("a request failed over a defect", error),
  });
  app.server.on("request", (_request, response) => {
    running++;
    response.once("close", () => running--);
  });
  listening = await listen(app.server, socket, group, (error) => onError("a connection was refused", error));
  return {
    async stop(graceMs) {
      await listening.stop();
      const end = performance.now() + graceMs + LAST_ANSWERS_MS;
      while (running > 0 && performance.now() < end) await Bun.sleep(LOOK_MS);
      listening.destroy();
    },
  };
}
