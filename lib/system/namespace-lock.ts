/**
 * Takes locks that belong to a network namespace: the name of an abstract socket, which one socket of a namespace can have, and which is
 * free as soon as its process ends (unix(7)). Any user may take such a name, so it counts whose it is.
 */
import { errnoName, systemErrorCode } from "./errno.ts";
import { closeFile } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/linux/socket.h, include/uapi/asm-generic/socket.h */
const AF_UNIX = 1;
const SOCK_STREAM_CLOEXEC_NONBLOCK = 1 | 0o2000000 | 0o4000;
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;

/** Process that has a lock. */
export interface LockOwner {
  /** 0 for a process of another PID namespace. */
  readonly pid: number;
  readonly uid: number;
}

/** @returns `undefined` when the lock is held already, by this process or another @throws an error of Bun for every other failure */
export function tryLockNamespace(name: string): Disposable | undefined {
  try {
    // Callers get their answer from the connection itself; one that nobody accepts would fill the queue.
    const listener = Bun.listen({ unix: `\0${name}`, socket: { open: (socket) => void socket.end(), data: () => undefined } });
    listener.unref();
    return { [Symbol.dispose]: () => listener.stop(true) };
  } catch (error) {
    if (systemErrorCode(error) === "EADDRINUSE") return undefined;
    throw error;
  }
}

/** @returns `undefined` when nobody has it, or its owner does not listen */
export function namespaceLockOwner(name: string): LockOwner | undefined {
  const fd = libc().socket(AF_UNIX, SOCK_STREAM_CLOEXEC_NONBLOCK, 0);
  if (fd < 0) throw new Error(`socket: ${errnoName(lastErrno())}`);
  try {
    const address = Buffer.from(`\0\0\0${name}`);
    address.writeUInt16LE(AF_UNIX);
    if (libc().connect(fd, address, address.length) !== 0) return undefined;
    const credentials = new Int32Array(3);
    if (libc().getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, Uint32Array.of(credentials.byteLength)) !== 0) return undefined;
    const [pid = 0, uid = 0] = credentials;
    return { pid, uid: uid >>> 0 };
  } finally {
    closeFile(fd);
  }
}
