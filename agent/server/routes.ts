/** The operations of agent/api as routes of fastify: schemas from there, answers from the handlers. */
import fastifySwagger from "@fastify/swagger";
import Ajv, { type ValidateFunction } from "ajv";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type FastifySchema } from "fastify";
import { MAX_BODY_BYTES } from "../../handover/call.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { MODELS } from "../api/model.ts";
import type { Operation } from "../api/operation.ts";
import { BASE_PATH, ERROR_ANSWER, OPERATION_NAMES, OPERATIONS, type OperationName } from "../api/operations.ts";
import { type Access, mayCall } from "./access.ts";
import { errorAnswer } from "./error-answer.ts";
import type { HandlerAnswer, HandlerRequest, Handlers } from "./handler.ts";
import { Reads } from "./lanes.ts";
import type { Peer } from "./peer.ts";

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
  /** Told of what no handler expected. */
  onDefect(error: unknown): void;
  /** Told of each answer. */
  onAnswer?(operation: OperationName, status: number, milliseconds: number): void;
  /** Aborts when running calls shall end. */
  readonly ending: AbortSignal;
}

interface ServedRoutes extends RoutesInput {
  readonly reads: Reads;
  /** The OpenAPI document, which never changes. */
  readonly document: () => string;
}

export async function buildApp(input: RoutesInput): Promise<FastifyInstance> {
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    // What is wrong before there is a route, such as a URL that cannot be decoded.
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
    const served = { ...input, reads: new Reads(), document: () => document };
    for (const name of OPERATION_NAMES) addRoute(scope, name, served);
    scope.get(`${BASE_PATH}/openapi.json`, { schema: { hide: true } }, (request, reply) => serveDocument(request, reply, served));
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

async function serveDocument(request: FastifyRequest, reply: FastifyReply, input: ServedRoutes): Promise<FastifyReply> {
  try {
    const { access } = authorise(input.callerOf(request), true);
    const work = async () => input.document();
    const document = await (access === "read" ? input.reads.run(work) : work());
    return reply.type("application/json").send(document);
  } catch (error) {
    return sendError(reply, error, input);
  }
}

function addRoute(app: FastifyInstance, name: OperationName, input: ServedRoutes): void {
  const operation: Operation = OPERATIONS[name];
  app.route({
    method: operation.method,
    url: `${BASE_PATH}${operation.path.replaceAll(/\{([^}]+)\}/g, ":$1")}`,
    schema: schemaOf(name, operation),
    // Checked before the body is read: a caller without the right must not cost that work.
    onRequest: async (request) => {
      authorise(input.callerOf(request), operation.isRead);
    },
    handler: (request, reply) => serve(name, request, reply, input),
  });
}

function schemaOf(name: OperationName, { summary, tag, params, query, body, headers, answers }: Operation): FastifySchema {
  const responses = Object.fromEntries(
    Object.entries(answers).map(([code, schema]) => [code, schema ?? { type: "null", description: "No body" }]),
  );
  return {
    summary,
    tags: [tag],
    operationId: name,
    ...(params === undefined ? {} : { params }),
    ...(query === undefined ? {} : { querystring: query }),
    ...(body === undefined ? {} : { body }),
    ...(headers === undefined ? {} : { headers }),
    response: { ...responses, "4xx": ERROR_ANSWER, "5xx": ERROR_ANSWER },
  };
}

/** @throws TortieError `access-denied` */
function authorise(caller: Caller | undefined, isRead: boolean): Caller {
  if (caller !== undefined && mayCall(caller.access, isRead)) return caller;
  const who = caller === undefined ? "an unknown caller" : `uid ${caller.peer.uid} (pid ${caller.peer.pid})`;
  throw new TortieError("access-denied", `${who} may not ${isRead ? "read" : "do this"} over this socket`);
}

async function serve(name: OperationName, request: FastifyRequest, reply: FastifyReply, input: ServedRoutes): Promise<FastifyReply> {
  const begin = performance.now();
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort(new TortieError("caller-gone", "the caller has gone away"));
  });
  try {
    const caller = authorise(input.callerOf(request), OPERATIONS[name].isRead);
    // The validator has judged the three parts by the schemas that their types are made from.
    const parts = { params: request.params, query: request.query, body: request.body } as Pick<
      HandlerRequest<OperationName>,
      "params" | "query" | "body"
    >;
    const signal = AbortSignal.any([gone.signal, input.ending]);
    const handler = input.handlers[name] as (request: HandlerRequest<OperationName>) => Promise<HandlerAnswer>;
    const work = async () => handler({ ...parts, ...caller, headers: request.headers, signal });
    const answer = await (OPERATIONS[name].isRead && caller.access === "read" ? input.reads.run(work) : work());
    input.onAnswer?.(name, answer.status, performance.now() - begin);
    return send(reply, answer);
  } catch (error) {
    const sent = sendError(reply, error, input);
    input.onAnswer?.(name, reply.statusCode, performance.now() - begin);
    return sent;
  }
}

function send(reply: FastifyReply, { status, body, headers = {} }: HandlerAnswer): FastifyReply {
  reply.code(status).headers(headers);
  if (body === undefined) return reply.send();
  if (!reply.hasHeader("content-type")) reply.type("application/json");
  return reply.send(typeof body === "string" ? body : JSON.stringify(body));
}

function sendError(reply: FastifyReply, error: unknown, { onDefect }: RoutesInput): FastifyReply {
  if (!(error instanceof TortieError) || error.word === "internal") onDefect(error);
  const { status, body, headers } = errorAnswer(error);
  const wantsText = String(reply.request.headers.accept ?? "").startsWith("text/plain");
  if (wantsText) return reply.code(status).headers(headers).type("text/plain").send(`${body.msg}\n`);
  return send(reply, { status, body, headers });
}

/** What fastify finds wrong with a request before a handler sees it. */
function asTortieError(error: unknown): unknown {
  if (error instanceof TortieError || typeof error !== "object" || error === null) return error;
  const { statusCode, message } = error as { readonly statusCode?: unknown; readonly message?: unknown };
  const text = `the request is not valid: ${String(message)}`;
  if (statusCode === 413) return new TortieError("request-too-large", text, { cause: error });
  if (typeof statusCode === "number" && statusCode >= 400 && statusCode < 500)
    return new TortieError("call-invalid", text, { cause: error });
  return error;
}

/** Texts of a URL and of header fields stand for numbers and booleans; the members of a body have their types. */
function validatorCompiler() {
  const [bodies, texts] = [false, true].map((coerceTypes) => {
    const ajv = new Ajv({ coerceTypes, strict: false });
    for (const schema of MODELS.values()) ajv.addSchema(schema);
    return ajv;
  });
  return ({ schema, httpPart }: { readonly schema: object; readonly httpPart?: string }): ValidateFunction => {
    const ajv = httpPart === "body" ? bodies : texts;
    if (ajv === undefined) throw new Error("no validator");
    return ajv.compile(schema);
  };
}
