/**
 * The API socket (A§2.1): bound under a private name, given its mode and group, then renamed into place, so that it is never there with
 * wider rights. Connections are accepted by node:net, which says their descriptor, and handed to the HTTP server; node:http's own
 * listener under Bun does not say it.
 */
import { chmodSync, chownSync, renameSync, rmSync, unlinkSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { limitConnections } from "../../lib/resident/connections.ts";
import { type Peer, peerOf } from "./peer.ts";

const SOCKET_MODE = 0o660;
const PRIVATE_UMASK = 0o177;
/** Connections at once of one uid that is not root. Root is the runtime, whose calls are limited by their lanes. */
const MOST_OF_A_USER = 64;

export interface Listening {
  /** Who made the connection that a request came on. */
  peerOf(socket: object): Peer | undefined;
  /** Accepts no more connections and removes the socket; those that are there stay. */
  stop(): Promise<void>;
  /** Ends the connections that are left. */
  destroy(): void;
}

/**
 * @param group number of the group that may open it; `undefined`: root alone
 * @param onRefused told of a connection whose peer cannot be asked for
 */
export async function listen(
  server: HttpServer,
  path: string,
  group: number | undefined,
  onRefused: (error: unknown) => void,
): Promise<Listening> {
  const peers = new WeakMap<object, Peer>();
  const connections = limitConnections(server, (uid) => (uid === 0 ? Number.POSITIVE_INFINITY : MOST_OF_A_USER));
  const acceptor = createServer((socket) => {
    try {
      const peer = peerOf(descriptorOf(socket));
      peers.set(socket, peer);
      connections.serve(socket, peer.uid);
    } catch (error) {
      onRefused(error);
      socket.destroy();
    }
  });
  await bind(acceptor, path, group);
  return {
    peerOf: (socket) => peers.get(socket),
    async stop() {
      // Only ours: a successor may have put its own there.
      rmSync(path, { force: true });
      acceptor.close();
    },
    destroy: () => connections.stop(),
  };
}

async function bind(acceptor: Server, path: string, group: number | undefined): Promise<void> {
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  const before = process.umask(PRIVATE_UMASK);
  try {
    await new Promise<void>((done, failed) => {
      acceptor.once("error", failed);
      acceptor.listen(draft, done);
    });
  } finally {
    process.umask(before);
  }
  try {
    chmodSync(draft, SOCKET_MODE);
    if (group !== undefined) chownSync(draft, 0, group);
    renameSync(draft, path);
  } catch (error) {
    acceptor.close();
    try {
      unlinkSync(draft);
    } catch {
      // The server has removed it.
    }
    throw error;
  }
}

/** Bun keeps the descriptor in `_handle`, as Node does; neither has a public name for it. */
function descriptorOf(socket: Socket): number {
  const handle: unknown = "_handle" in socket ? socket._handle : undefined;
  const fd = typeof handle === "object" && handle !== null && "fd" in handle ? handle.fd : undefined;
  if (typeof fd !== "number" || fd < 0) throw new Error("a connection without a descriptor");
  return fd;
}
