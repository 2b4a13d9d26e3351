/**
 * Finds the network namespace that a path refers to, and works inside one.
 *
 * Namespaces belong to threads. Everything here runs on the calling thread, synchronously, and is over before anything asynchronous can
 * happen: a thread left in the wrong namespace is the worst bug this program can have (design, decisions).
 */
import { TortieError } from "../errors/errors.ts";
import { errnoName, errnoText, systemErrorCode, systemErrorText } from "./errno.ts";
import { closeFile, fileSystemType, O_RDONLY, openFile, statusIfSeen, statusOf, writeAll } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/linux/magic.h; before Linux 3.19 namespace files lay on procfs. */
const NSFS_MAGIC = 0x6e736673;
const PROC_SUPER_MAGIC = 0x9fa0;
/** include/uapi/linux/sched.h */
const CLONE_NEWNET = 0x40000000;
/** The thread's, not the process's: /proc/self is the main thread, which need not be the one that runs this. */
const OWN_NAMESPACE = "/proc/thread-self/ns/net";
/** include/uapi/asm-generic/socket.h; the second one since Linux 5.14. */
const SOL_SOCKET = 1;
const SO_NETNS_COOKIE = 71;
/** include/linux/socket.h, include/linux/net.h. */
const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;

/**
 * Throws unless `path` is the file of a namespace (C§4.2 step 2; texts as recorded in `netns-missing`, `netns-file`).
 * @throws TortieError `netns-missing` when nothing is there, `netns-invalid` when something else is
 */
export function verifyNamespacePath(path: string): void {
  const type = looking(path, "Statfs", () => fileSystemType(path));
  if (type !== NSFS_MAGIC && type !== PROC_SUPER_MAGIC) {
    throw new TortieError("netns-invalid", `unknown FS magic on "${path}": ${type.toString(16)}`);
  }
}

/** Tells whether `path` is the network namespace of the calling thread: same device, same inode. Nothing that can be looked at: `false`. */
export function isOwnNamespace(path: string): boolean {
  const identity = statusIfSeen(path)?.identity;
  return identity !== undefined && isOwnIdentity(identity);
}

/** Tells whether device and inode, as `FileStatus.identity` has them, are those of the calling thread's network namespace. */
export function isOwnIdentity(identity: string): boolean {
  return statusOf(OWN_NAMESPACE)?.identity === identity;
}

/** Calico's words for a sandbox that is the plugin's own namespace (recording netns-own). */
export const OWN_REFUSED = "plugin's netns and netns from CNI_NETNS should not be the same";

/**
 * Looks at the path of a sandbox; an error on the way names the sandbox.
 * @throws TortieError `netns-missing`, `netns-invalid`
 */
function looking<T>(path: string, call: string, look: () => T): T {
  try {
    return look();
  } catch (error) {
    const text = `failed to ${call} "${path}": ${systemErrorText(error) ?? String(error)}`;
    const isMissing = systemErrorCode(error) === "ENOENT" || systemErrorCode(error) === "ENOTDIR";
    throw new TortieError(isMissing ? "netns-missing" : "netns-invalid", text, { cause: error });
  }
}

/** A namespace held open: it cannot go away, and its path may, while this exists. */
export interface OpenNamespace extends Disposable {
  readonly path: string;
  readonly fd: number;
}

/** @throws TortieError `netns-missing`, `netns-invalid` */
export function openNamespace(path: string): OpenNamespace {
  verifyNamespacePath(path);
  const fd = looking(path, "open", () => openFile(path, O_RDONLY));
  return {
    path,
    fd,
    [Symbol.dispose]() {
      closeFile(fd);
    },
  };
}

/** How many `inNamespace` this thread is inside of. */
let depth = 0;

/** Tells whether this thread is in another namespace at the moment, by `inNamespace`. */
export function isInOtherNamespace(): boolean {
  return depth > 0;
}

/**
 * Runs `work` on this thread inside another network namespace and comes back, whatever happens; the process is aborted if it cannot come
 * back.
 * @param work must be synchronous
 * @throws TortieError `netns-invalid` when the namespace cannot be entered: it is no network namespace, or permission is missing
 */
export function inNamespace<T>(namespace: OpenNamespace, work: () => T extends PromiseLike<unknown> ? never : T): T {
  const home = openFile(OWN_NAMESPACE, O_RDONLY);
  try {
    if (libc().setns(namespace.fd, CLONE_NEWNET) !== 0) {
      const errno = lastErrno();
      throw new TortieError("netns-invalid", `failed to enter netns: "${namespace.path}": ${errnoText(errno)} (${errnoName(errno)})`);
    }
    depth++;
    try {
      return work();
    } finally {
      depth--;
      if (libc().setns(home, CLONE_NEWNET) !== 0) {
        // Every later step would change the wrong network.
        try {
          writeAll(2, new TextEncoder().encode(`tortie: cannot return from network namespace ${namespace.path}: aborting\n`));
        } finally {
          // Standard error may have no reader (EPIPE) or no room (EAGAIN).
          libc().abort();
        }
      }
    }
  } finally {
    closeFile(home);
  }
}

/**
 * Reads a number that no other network namespace has had, or will have, since the machine's boot. Device and inode tell apart only what
 * exists at the same time: the inode of a namespace that is gone is given to the next one at once (fs/proc/generic.c `proc_alloc_inum`).
 * @returns in decimal; `undefined` on kernels that do not tell it, and for what cannot be entered
 */
export function netnsCookie(namespace: OpenNamespace): string | undefined {
  const fd = socketIn(namespace);
  if (fd === undefined) return undefined;
  try {
    const value = new BigUint64Array(1);
    const result = libc().getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, value, Uint32Array.of(value.byteLength));
    return result === 0 ? String(value[0]) : undefined;
  } finally {
    closeFile(fd);
  }
}

/** Any socket does: it belongs to the namespace that it was made in. */
function socketIn(namespace: OpenNamespace): number | undefined {
  try {
    const fd = inNamespace(namespace, () => libc().socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0));
    return fd < 0 ? undefined : fd;
  } catch {
    // What cannot be entered cannot be changed either; whoever tries says why.
    return undefined;
  }
}
