/** One call of the dataplane's server, on a connection of its own: a plugin process makes one or two in its life. */
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { type ErrorWord, TortieError } from "../../lib/errors/errors.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { Method, Reply } from "./protocol.ts";

/** C§4.6: for each call, connecting included. */
const CALL_LIMIT_MS = 5_000;
/** A reply is two names and a sentence. */
const LARGEST_REPLY = 64 * 1024;
const LONGEST_MESSAGE = 2_000;

/**
 * @param socket as gRPC names servers: "unix:///run/dataplane.sock", "127.0.0.1:9000"
 * @throws TortieError `dataplane-unreachable`, `dataplane-timeout`, `dataplane-answer-invalid`, `dataplane-failed`
 */
export async function callServer(socket: string, method: Method, request: Readonly<Record<string, unknown>>): Promise<Reply> {
  const client = new Client(socket, credentials.createInsecure(), {
    "grpc.max_receive_message_length": LARGEST_REPLY,
    // The server is on this node, whatever proxy leads out of it.
    "grpc.enable_http_proxy": 0,
  });
  try {
    const reply = await ask(client, method, request);
    if (reply.successful) return reply;
    throw new TortieError("dataplane-failed", `grpc dataplane error: ${excerpt(reply.errorMessage, LONGEST_MESSAGE)}`);
  } finally {
    client.close();
  }
}

function ask(client: Client, { path, encode, decode }: Method, request: Readonly<Record<string, unknown>>): Promise<Reply> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const options = { deadline: Date.now() + CALL_LIMIT_MS };
  client.makeUnaryRequest<Readonly<Record<string, unknown>>, Reply>(path, encode, decode, request, options, (error, reply) => {
    if (error !== null) reject(explained(error, client.getChannel().getTarget()));
    else if (reply === undefined) reject(new TortieError("dataplane-answer-invalid", `${path}: the server sent no reply`));
    else resolve(reply);
  });
  return promise;
}

const WORDS = new Map<status, ErrorWord>([
  [status.UNAVAILABLE, "dataplane-unreachable"],
  [status.DEADLINE_EXCEEDED, "dataplane-timeout"],
  // A reply that is too large, and one that is no such message.
  [status.RESOURCE_EXHAUSTED, "dataplane-answer-invalid"],
  [status.INTERNAL, "dataplane-answer-invalid"],
]);

/** In the words of Go's library, by which Calico's users search (recording dataplane-grpc). */
function explained(error: ServiceError, target: string): TortieError {
  const name = (status[error.code] ?? "Unknown").toLowerCase().replace(/(?:^|_)(.)/g, (_, first: string) => first.toUpperCase());
  const details = error.details.replace(/\. Resolution note:\s*$/, "");
  const message = `rpc error: code = ${name} desc = ${excerpt(details, LONGEST_MESSAGE)} (dataplane ${target})`;
  return new TortieError(WORDS.get(error.code) ?? "dataplane-failed", message, { cause: error });
}
