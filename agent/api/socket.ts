/**
 * Opens Unix sockets of the agent, and decides who may do what over them (A§2.1). A socket is bound under a private name, given its mode
 * and group, then renamed into place, so that it never has wider rights. Takes the peer's identity from the kernel, which noted it when the
 * connection was made (SO_PEERCRED, SO_PEERGROUPS; unix(7)).
 */
import { chmodSync, chownSync, renameSync, rmSync } from "node:fs";
import type { Server as HttpServer } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { limitConnections } from "../../lib/resident/connections.ts";
import { errnoName, errnoText } from "../../lib/system/errno.ts";
import { ifReadable, readText } from "../../lib/system/files.ts";
import { lastErrno, libc } from "../../lib/system/libc.ts";

/** include/uapi/asm-generic/socket.h */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
const SO_PEERGROUPS = 59;
/** Groups that are asked for at first; more only with a second call. */
const USUAL_GROUPS = 64;
const ERANGE = 34;

const PRIVATE_UMASK = 0o177;

const SOCKET_MODE = 0o660;
/** Connections at once of one uid that is not root. Root is the runtime, whose calls are limited by their lanes. */
const MOST_OF_A_USER = 64;

export interface Peer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Supplementary groups; root is not asked for them, which give it nothing. */
  readonly groups: readonly number[];
}

export interface SocketRights {
  readonly mode: number;
  /** `undefined`: root's. */
  readonly group?: number | undefined;
}

/** @throws Error when it cannot be bound; nothing is left at `path` that was not there */
export async function bindSocket(acceptor: Server, path: string, { mode, group }: SocketRights): Promise<void> {
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
    chmodSync(draft, mode);
    if (group !== undefined) chownSync(draft, 0, group);
    renameSync(draft, path);
  } catch (error) {
    acceptor.close();
    // The server may have removed it.
    rmSync(draft, { force: true });
    throw error;
  }
}

export interface Listening {
  /** Says who made the connection that a request came on. */
  peerOf(socket: object): Peer | undefined;
  /** Accepts no more connections and removes the socket; those that are there stay. */
  stop(): Promise<void>;
  /** Ends the connections that are left. */
  destroy(): void;
}

/**
 * Opens the API socket. Connections are accepted by node:net, which says their descriptor, and handed to the HTTP server: node:http's own
 * listener under Bun does not say it.
 *
 * @param group number of the group that may open it; `undefined`: root alone
 * @param onRefused is called for a connection whose peer cannot be found out
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
      const peer = peerOf(socket);
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
      // Removes only our own: a successor may have put its own there.
      rmSync(path, { force: true });
      acceptor.close();
    },
    destroy: () => connections.stop(),
  };
}

/** @throws Error when the connection has no peer */
export function peerOf(socket: Socket): Peer {
  const fd = descriptorOf(socket);
  const [pid = 0, uid = -1, gid = -1] = option(fd, SO_PEERCRED, 3).values;
  return { pid, uid: uid >>> 0, gid: gid >>> 0, groups: uid === 0 ? [] : groupsOf(fd) };
}

/** Reads the descriptor from `_handle`, which has no public name in Bun or in Node. @throws Error where it is not there */
function descriptorOf(socket: Socket): number {
  const handle: unknown = "_handle" in socket ? socket._handle : undefined;
  const fd = typeof handle === "object" && handle !== null && "fd" in handle ? handle.fd : undefined;
  if (typeof fd !== "number" || fd < 0) throw new Error("a connection without a descriptor");
  return fd;
}

function groupsOf(fd: number): readonly number[] {
  const first = option(fd, SO_PEERGROUPS, USUAL_GROUPS);
  const { values } = first.needed > USUAL_GROUPS ? option(fd, SO_PEERGROUPS, first.needed) : first;
  return values.map((group) => group >>> 0);
}

/** Reads a socket option of 32-bit numbers. */
function option(fd: number, name: number, count: number): { readonly values: readonly number[]; readonly needed: number } {
  const values = new Int32Array(count);
  const length = Uint32Array.of(values.byteLength);
  const result = libc().getsockopt(fd, SOL_SOCKET, name, values, length);
  const errno = result === 0 ? 0 : lastErrno();
  const needed = (length[0] ?? 0) / Int32Array.BYTES_PER_ELEMENT;
  if (result !== 0 && !(errno === ERANGE && needed > count)) {
    throw new Error(`getsockopt ${name}: ${errnoText(errno)} (${errnoName(errno)})`);
  }
  return { values: [...values.subarray(0, Math.min(needed, count))], needed };
}

/** Root may do everything, members of the socket's group may read, all others nothing (A§2.1). */
export type Access = "everything" | "read" | "nothing";

/** @param group of the socket; `undefined` where this machine has no such group */
export function accessOf(peer: Pick<Peer, "uid" | "gid" | "groups">, group: number | undefined): Access {
  if (peer.uid === 0) return "everything";
  if (group !== undefined && (peer.gid === group || peer.groups.includes(group))) return "read";
  return "nothing";
}

/** @param isRead the operation changes nothing and is not a plugin's call */
export function mayCall(access: Access, isRead: boolean): boolean {
  return access === "everything" || (access === "read" && isRead);
}

/** Reads the number of a group from /etc/group (group(5)). @returns `undefined` when there is no group of that name */
export function groupNumber(name: string, file = "/etc/group"): number | undefined {
  const text = ifReadable(() => readText(file)) ?? "";
  const fields = text.split("\n").map((line) => line.split(":"));
  const number = fields.find(([group]) => group === name)?.[2];
  return number !== undefined && /^\d+$/.test(number) ? Number(number) : undefined;
}
