/**
 * Serves the page to browsers of this machine. Everything is below a path that begins with a random token: whoever does not know it gets
 * nothing. A name of another host in the request means that a foreign page had its own name lead here (DNS rebinding).
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { AddressInfo } from "node:net";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { type About, LIVE } from "../../../ui/contract.ts";
import { answerText, type Run } from "./answers.ts";
import type { Assets } from "./assets.ts";
import { Live } from "./live.ts";
import { lineOf, type Sources } from "./questions.ts";

export interface PageInput {
  readonly token: string;
  /** 0: one that is free. */
  readonly port: number;
  readonly about: About;
  readonly assets: Assets;
  readonly sources: Sources;
  readonly run: Run;
}

export interface PageServer {
  /** Is the address to open, token included. */
  readonly url: string;
  stop(): Promise<void>;
}

const HOST = "127.0.0.1";
/** Knows this machine by the names that a browser may have for it. A forwarded port is another one than ours. */
const OWN_HOST = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/;
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** @throws Error when the port cannot be bound */
export async function servePage(input: PageInput): Promise<PageServer> {
  const app = buildPage(input);
  await app.listen({ host: HOST, port: input.port });
  const { port } = app.server.address() as AddressInfo;
  return { url: `http://${HOST}:${port}/${input.token}/`, stop: () => app.close() };
}

/** Makes the server without opening its port. */
export function buildPage({ token, about, assets, sources, run }: PageInput): FastifyInstance {
  const app = fastify({
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    // A path that cannot be decoded has no token.
    frameworkErrors: (_error, _request, reply) => void refuse(reply, 401, "the token is missing"),
  });
  const guard = guardOf(token);
  const live = new Live(LIVE[sources.scope], (name) => answerText(run, lineOf(name, {}, sources)));
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(HEADERS);
    const refused = guard(request);
    if (refused !== undefined) return refuse(reply, ...refused);
  });
  app.setNotFoundHandler((_request, reply) => refuse(reply, 404, "there is nothing here"));
  app.setErrorHandler((error, _request, reply) => refuse(reply, statusOf(error), messageOf(error)));
  for (const [path, { type, text }] of Object.entries(assets)) {
    app.get(`/:token/${path}`, (_request, reply) => reply.type(type).send(text));
  }
  app.get<{ Params: { question: string }; Querystring: Record<string, unknown> }>("/:token/ask/:question", async (request, reply) =>
    reply.type("application/json").send(await answerText(run, lineOf(request.params.question, request.query, sources))),
  );
  app.get("/:token/events", (_request, reply) => sendEvents(reply, live, about));
  return app;
}

/** @returns the status and the text to refuse a request with; `undefined`: it is served */
function guardOf(token: string): (request: FastifyRequest) => readonly [number, string] | undefined {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  const wanted = digest(token);
  return ({ headers: { host = "" }, raw: { url = "" } }) => {
    if (!OWN_HOST.test(host)) return [403, "this page is served under the names of this machine only"];
    const [, first = ""] = /^\/([^/?#]*)/.exec(url) ?? [];
    return timingSafeEqual(digest(first), wanted)
      ? undefined
      : [401, "the token is missing: open the address that tortiectl ui has printed"];
  };
}

function refuse(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).headers(HEADERS).type("text/plain; charset=utf-8").send(`${text}\n`);
}

function statusOf(error: unknown): number {
  if (error instanceof TortieError) return error.word === "operation-unknown" ? 404 : 400;
  const status = typeof error === "object" && error !== null && "statusCode" in error ? error.statusCode : undefined;
  return typeof status === "number" && status >= 400 ? status : 500;
}

/** Browsers that do not read lose their stream, and open another one. */
const MOST_UNREAD_BYTES = 64 * 1024 * 1024;
const HEARTBEAT_MS = 15_000;

/** Answers with server-sent events (HTML Standard, 9.2) until the browser goes. */
function sendEvents(reply: FastifyReply, live: Live, about: About): void {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, { ...HEADERS, "content-type": "text/event-stream" });
  const send = (event: string, text: string) => {
    raw.write(`event: ${event}\ndata: ${text}\n\n`);
    if (raw.writableLength > MOST_UNREAD_BYTES) raw.destroy();
  };
  send("about", JSON.stringify(about));
  const leave = live.follow(send);
  const heart = setInterval(() => raw.write(": \n\n"), HEARTBEAT_MS);
  raw.once("close", () => {
    clearInterval(heart);
    leave();
  });
}
