/** Serves the operations as routes of fastify: schemas from the tables, answers from the handlers. */

import { Readable } from "node:stream";
import fastifySwagger from "@fastify/swagger";
import Ajv, { type ValidateFunction } from "ajv";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifySchema } from "fastify";
import { MAX_BODY_BYTES } from "../../handover/call.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { errorAnswer } from "./error-answer.ts";
import { Reads } from "./lanes.ts";
import { type HandlerAnswer, isRead, MODELS, type Operation } from "./operation.ts";
import { BASE_PATH, ERROR_ANSWER, type Handlers, OPERATION_NAMES, OPERATIONS, type OperationName } from "./operations.ts";
import { type Access, mayCall, type Peer } from "./socket.ts";

/** Who sent a request, by the connection it came on. */
interface Caller {
  readonly peer: Peer;
  readonly access: Access;
}

export interface RoutesInput {
  readonly version: string;
  readonly handlers: Handlers;
  /** @returns `undefined` for a connection that is not known */
  callerOf(request: FastifyRequest): Caller | undefined;
  /** Called with what no handler expected. */
  onDefect(error: unknown): void;
  /** Called after each answer. */
  onAnswer?(operation: OperationName, status: number, milliseconds: number): void;
}

interface ServedRoutes extends RoutesInput {
  readonly reads: Reads;
}

export async function buildApp(input: RoutesInput): Promise<FastifyInstance> {
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    // Answers what is wrong before there is a route, such as a URL that cannot be decoded.
    frameworkErrors: (error, _request, reply) => void sendError(reply, asTortieError(error), input),
  });
  let document = "";
  for (const schema of MODELS.values()) app.addSchema(schema);
  app.setValidatorCompiler(validatorCompiler());
  // Schemas of answers are for the document and the tests; an answer is sent as the handler gave it.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.setErrorHandler((error, _request, reply) => sendError(reply, asTortieError(error), input));
  app.setNotFoundHandler((request, reply) => sendError(reply, unknownOperation(request), input));
  await app.register(fastifySwagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "tortie-node", version: input.version, description: "The node agent of Tortie, on its Unix socket." },
      servers: [{ url: BASE_PATH }],
    },
    stripBasePath: true,
    refResolver: { buildLocalReference: (json) => String(json.$id) },
  });
  await app.register(async (scope) => {
    const served = { ...input, reads: new Reads() };
    for (const name of OPERATION_NAMES) addRoute(scope, name, served);
    scope.get(`${BASE_PATH}/openapi.json`, { schema: { hide: true } }, (request, reply) =>
      serve(request, reply, served, true, async () => ({ status: 200, body: document })),
    );
  });
  await app.ready();
  document = JSON.stringify(app.swagger());
  return app;
}

/** Plugins of earlier versions call here. They serve the call themselves when its protocol is not spoken, and fail with any other word. */
function unknownOperation({ method, url }: FastifyRequest): TortieError {
  if (method === "POST" && url.startsWith(`${BASE_PATH}/cni/`)) {
    return new TortieError("protocol-unsupported", "calls of plugins are not spoken here, only on the call socket");
  }
  return new TortieError("operation-unknown", `there is no operation ${method} ${url.slice(0, 200)}`);
}

function addRoute(app: FastifyInstance, name: OperationName, input: ServedRoutes): void {
  const operation: Operation = OPERATIONS[name];
  const mayRead = isRead(operation);
  // The validator has judged the three parts by the schemas that their types are made from.
  const handler = input.handlers[name] as (request: unknown) => Promise<HandlerAnswer>;
  app.route({
    method: operation.method,
    url: `${BASE_PATH}${operation.path.replaceAll(/\{([^}]+)\}/g, ":$1")}`,
    schema: schemaOf(name, operation),
    // Checked before the body is read: a caller without the right must not cost that work.
    onRequest: async (request) => {
      authorise(input.callerOf(request), mayRead);
    },
    async handler(request, reply) {
      const begin = performance.now();
      const { params, query, body, headers } = request;
      await serve(request, reply, input, mayRead, async () => handler({ params, query, body, headers }));
      input.onAnswer?.(name, reply.statusCode, performance.now() - begin);
      return reply;
    },
  });
}

function schemaOf(name: OperationName, { summary, path, params, query, body, headers, answers }: Operation): FastifySchema {
  const responses = Object.fromEntries(
    Object.entries(answers).map(([code, schema]) => [code, schema ?? { type: "null", description: "No body" }]),
  );
  const parts = Object.entries({ params, querystring: query, body, headers }).filter(([, schema]) => schema !== undefined);
  const tag = /^\/(cni|endpoint|identity|ipam|policy)/.exec(path)?.[1] ?? "node";
  return {
    summary,
    tags: [tag],
    operationId: name,
    ...Object.fromEntries(parts),
    response: { ...responses, "4xx": ERROR_ANSWER, "5xx": ERROR_ANSWER },
  };
}

/** @throws TortieError `access-denied` */
function authorise(caller: Caller | undefined, mayRead: boolean): Caller {
  if (caller !== undefined && mayCall(caller.access, mayRead)) return caller;
  const who = caller === undefined ? "an unknown caller" : `uid ${caller.peer.uid} (pid ${caller.peer.pid})`;
  throw new TortieError("access-denied", `${who} may not ${mayRead ? "read" : "do this"} over this socket`);
}

async function serve(
  request: FastifyRequest,
  reply: FastifyReply,
  input: ServedRoutes,
  mayRead: boolean,
  work: () => Promise<HandlerAnswer>,
): Promise<FastifyReply> {
  try {
    const { access } = authorise(input.callerOf(request), mayRead);
    return send(reply, await (mayRead && access === "read" ? input.reads.run(work) : work()));
  } catch (error) {
    return sendError(reply, error, input);
  }
}

function send(reply: FastifyReply, { status, body, headers = {} }: HandlerAnswer): FastifyReply {
  reply.code(status).headers(headers);
  if (body === undefined) return reply.send();
  if (!reply.hasHeader("content-type")) reply.type("application/json");
  return reply.send(typeof body === "string" || body instanceof Readable ? body : JSON.stringify(body));
}

function sendError(reply: FastifyReply, error: unknown, { onDefect }: RoutesInput): FastifyReply {
  if (!(error instanceof TortieError) || error.word === "internal") onDefect(error);
  const { status, body, headers } = errorAnswer(error);
  const wantsText = String(reply.request.headers.accept ?? "").startsWith("text/plain");
  if (wantsText) return reply.code(status).headers(headers).type("text/plain").send(`${body.msg}\n`);
  return send(reply, { status, body, headers });
}

/** Translates what fastify finds wrong with a request before a handler sees it. */
function asTortieError(error: unknown): unknown {
  if (error instanceof TortieError || typeof error !== "object" || error === null) return error;
  const { statusCode, message } = error as { readonly statusCode?: unknown; readonly message?: unknown };
  if (typeof statusCode !== "number" || statusCode < 400 || statusCode >= 500) return error;
  const word = statusCode === 413 ? "request-too-large" : "call-invalid";
  return new TortieError(word, `the request is not valid: ${String(message)}`, { cause: error });
}

/** Texts of a URL and of header fields stand for numbers and booleans; the members of a body have their types. */
function validatorCompiler() {
  const compiler = (coerceTypes: boolean) => {
    const ajv = new Ajv({ coerceTypes, strict: false });
    for (const schema of MODELS.values()) ajv.addSchema(schema);
    return ajv;
  };
  const [bodies, texts] = [compiler(false), compiler(true)];
  return ({ schema, httpPart }: { readonly schema: object; readonly httpPart?: string }): ValidateFunction =>
    (httpPart === "body" ? bodies : texts).compile(schema);
}
