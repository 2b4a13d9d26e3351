/**
 * The API socket (A§2.1). Connections are accepted by node:net, which says their descriptor, and handed to the HTTP server; node:http's own
 * listener under Bun does not say it.
 */
import { rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import { createServer } from "node:net";
import { limitConnections } from "../../lib/resident/connections.ts";
import { bindSocket, descriptorOf } from "./bind.ts";
import { type Peer, peerOf } from "./peer.ts";

const SOCKET_MODE = 0o660;
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
  await bindSocket(acceptor, path, { mode: SOCKET_MODE, group });
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
