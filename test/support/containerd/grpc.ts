/** One unary gRPC call over a unix socket (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). */
import { connect } from "node:http2";
import { createConnection } from "node:net";
import { type Decoded, decode, encode, type Message } from "./protobuf.ts";

/** @throws Error with the method, gRPC's status and its message */
export async function callGrpc(socket: string, method: string, request: Message, timeoutMs: number): Promise<Decoded> {
  const session = connect("http://localhost", { createConnection: () => createConnection(socket) });
  const body = encode(request);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(body.length, 1);
  try {
    return await new Promise((done, failed) => {
      const limit = setTimeout(() => failed(new Error(`${method}: no answer within ${timeoutMs} ms`)), timeoutMs);
      session.on("error", failed);
      const stream = session.request({ ":method": "POST", ":path": method, "content-type": "application/grpc", te: "trailers" });
      const chunks: Buffer[] = [];
      let status: Record<string, unknown> = {};
      stream.on("response", (headers) => {
        status = { ...status, ...headers };
      });
      stream.on("trailers", (headers) => {
        status = { ...status, ...headers };
      });
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("error", failed);
      stream.on("end", () => {
        clearTimeout(limit);
        if (String(status["grpc-status"]) === "0") done(decode(Buffer.concat(chunks).subarray(prefix.length)));
        else failed(new Error(`${method}: status ${status["grpc-status"]}: ${decodeURIComponent(String(status["grpc-message"]))}`));
      });
      stream.end(Buffer.concat([prefix, body]));
    });
  } finally {
    session.destroy();
  }
}
