/**
 * Servers that listen on the sandbox's loopback, so that a sandbox needs no link, address or route that a recording does not have: the way to
 * the API server, and one that answers readiness gates. The sockets are made inside the sandbox's namespace and served by this process, outside of it.
 */
import type { Socket, TCPSocketListener } from "bun";
import { inNamespace, openNamespace } from "../../../lib/system/netns.ts";
import type { Sandbox } from "./sandbox.ts";

const LOOPBACK = "127.0.0.1";

/** Forwards connections to `port` of the sandbox's 127.0.0.1 to `target`, a port of this process's own 127.0.0.1. */
export function forward(sandbox: Sandbox, port: number, target: number): Disposable {
  const listener = within(sandbox, () =>
    Bun.listen<Way>({
      hostname: LOOPBACK,
      port,
      data: { pending: [] },
      socket: {
        open: (inner) => {
          inner.data = { pending: [] };
          Bun.connect<Way>({ hostname: LOOPBACK, port: target, data: { peer: inner, pending: [] }, socket: wayOf() }).then(
            (outer) => {
              inner.data.peer = outer;
              flush(inner, outer);
            },
            () => inner.end(),
          );
        },
        ...wayOf(),
      },
    }),
  );
  return disposable(listener);
}

/** An HTTP server at `port` of the sandbox's 127.0.0.1 whose answer has the status that its path names: "/200", "/500". */
export function serveStatuses(sandbox: Sandbox, port: number): Disposable {
  const server = within(sandbox, () =>
    Bun.serve({
      hostname: LOOPBACK,
      port,
      fetch: (request) => new Response("", { status: Number(new URL(request.url).pathname.slice(1)) }),
    }),
  );
  return { [Symbol.dispose]: () => void server.stop(true) };
}

/** One end of a connection: the other end, and what this end sent that the other has not taken yet. */
interface Way {
  peer?: Socket<Way>;
  readonly pending: Uint8Array[];
}

function wayOf() {
  return {
    data: (socket: Socket<Way>, chunk: Buffer) => {
      socket.data.pending.push(new Uint8Array(chunk));
      if (socket.data.peer !== undefined) flush(socket, socket.data.peer);
    },
    drain: (socket: Socket<Way>) => {
      const { peer } = socket.data;
      if (peer !== undefined) flush(peer, socket);
    },
    close: (socket: Socket<Way>) => void socket.data.peer?.end(),
    error: (socket: Socket<Way>) => void socket.data.peer?.end(),
  };
}

function flush(from: Socket<Way>, to: Socket<Way>): void {
  const { pending } = from.data;
  for (let chunk = pending[0]; chunk !== undefined; chunk = pending[0]) {
    const written = to.write(chunk);
    if (written < chunk.length) {
      pending[0] = chunk.subarray(Math.max(written, 0));
      return;
    }
    pending.shift();
  }
}

function within<T>(sandbox: Sandbox, work: () => T extends PromiseLike<unknown> ? never : T): T {
  using namespace = openNamespace(sandbox.networkNamespace);
  return inNamespace(namespace, work);
}

function disposable(listener: TCPSocketListener<Way>): Disposable {
  return { [Symbol.dispose]: () => listener.stop(true) };
}
