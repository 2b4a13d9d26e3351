/** Messages and methods of the service `cni.CniDataplane` (C§4.6), as protocol buffers number them. */

import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import protobuf from "protobufjs";
import { type ErrorWord, TortieError } from "../../lib/errors/errors.ts";
import { excerpt } from "../../lib/log/format.ts";

const DEFINITION = `
  syntax = "proto3";
  package cni;

  message AddRequest {
    string interface_name = 1;
    string netns = 2;
    string desired_host_interface_name = 3;
    ContainerSettings settings = 4;
    repeated IPConfig container_ips = 5;
    repeated string container_routes = 6;
    WorkloadIDs workload = 7;
    map<string, string> dataplane_options = 8;
  }
  message ContainerSettings {
    bool allow_ip_forwarding = 1;
    int32 mtu = 2;
  }
  message IPConfig {
    string address = 1;
    string gateway = 2;
  }
  message WorkloadIDs {
    string name = 1;
    string namespace = 2;
    map<string, string> labels = 3;
    map<string, string> annotations = 4;
    string endpoint = 5;
    string node = 6;
    string orchestrator = 7;
    string pod = 8;
    repeated Port ports = 9;
  }
  message Port {
    string name = 1;
    string protocol = 2;
    uint32 port = 3;
    uint32 host_port = 4;
    string host_ip = 5;
  }
  message AddReply {
    bool successful = 1;
    string error_message = 2;
    string host_interface_name = 3;
    string container_mac = 4;
  }
  message DelRequest {
    string interface_name = 1;
    string netns = 2;
    map<string, string> dataplane_options = 3;
  }
  message DelReply {
    bool successful = 1;
    string error_message = 2;
  }
`;

const { root: ROOT } = protobuf.parse(DEFINITION, { keepCase: true });

/** Has what both replies have; a field that was not sent is empty. */
export interface Reply {
  readonly successful: boolean;
  readonly errorMessage: string;
  readonly hostInterfaceName: string;
  readonly containerMac: string;
}

interface Method {
  readonly path: string;
  readonly encode: (request: Readonly<Record<string, unknown>>) => Buffer;
  /** @throws Error when the bytes are not such a message */
  readonly decode: (bytes: Buffer) => Reply;
}

export const ADD = method("Add");
export const DEL = method("Del");

function method(name: string): Method {
  const [request, reply] = [ROOT.lookupType(`cni.${name}Request`), ROOT.lookupType(`cni.${name}Reply`)];
  return {
    path: `/cni.CniDataplane/${name}`,
    encode: (fields) => Buffer.from(request.encode(request.fromObject(fields)).finish()),
    decode(bytes) {
      const fields: Readonly<Record<string, unknown>> = reply.toObject(reply.decode(bytes));
      return {
        successful: fields.successful === true,
        errorMessage: textOf(fields.error_message),
        hostInterfaceName: textOf(fields.host_interface_name),
        containerMac: textOf(fields.container_mac),
      };
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Limits each call, connecting included (C§4.6). */
const CALL_LIMIT_MS = 5_000;
/** Limits a reply, which is two names and a sentence. */
const LARGEST_REPLY = 64 * 1024;
const LONGEST_MESSAGE = 2_000;

/**
 * Makes one call, on a connection of its own: a plugin process makes one or two in its life.
 *
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
  // The reply is too large, or not such a message.
  [status.RESOURCE_EXHAUSTED, "dataplane-answer-invalid"],
  [status.INTERNAL, "dataplane-answer-invalid"],
]);

/** Says a failure in the words of Go's library, by which Calico's users search (recording dataplane-grpc). */
function explained(error: ServiceError, target: string): TortieError {
  const name = (status[error.code] ?? "Unknown").toLowerCase().replace(/(?:^|_)(.)/g, (_, first: string) => first.toUpperCase());
  const details = error.details.replace(/\. Resolution note:\s*$/, "");
  const message = `rpc error: code = ${name} desc = ${excerpt(details, LONGEST_MESSAGE)} (dataplane ${target})`;
  return new TortieError(WORDS.get(error.code) ?? "dataplane-failed", message, { cause: error });
}
