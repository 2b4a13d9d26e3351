/** flock(2): a lock that the kernel drops when its holder dies, and that Calico's `calico-ipam` respects on the same path (I§1.8). */
import { constants } from "node:fs";
import { errnoName, errnoText, systemErrorCode } from "./errno.ts";
import { closeFile, directoryOf, makeDirectories, openFile } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/asm-generic/fcntl.h */
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;
const EINTR = 4;
const EWOULDBLOCK = 11;

/**
 * A symbolic link is refused: root would create whatever file it names. O_NONBLOCK keeps the open of a FIFO from waiting for a writer;
 * regular files ignore it.
 */
const OPEN_LOCK = constants.O_RDONLY | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Between two tries of a lock that the kernel says somebody else holds, although it was asked to wait. */
const PAUSE_MS = 5;

/**
 * Takes the exclusive lock of a file if it is free, and never waits. Disposing unlocks and closes the file, which stays where it is.
 *
 * The file is created with mode 0600 and opened read-only, missing directories with mode 0755.
 *
 * @returns `undefined` when somebody else holds the lock, in this process or in another
 * @throws Error with the path when the file cannot be opened or locked
 */
export function tryLockFile(path: string): Disposable | undefined {
  const fd = openLock(path);
  if (flock(fd, LOCK_EX | LOCK_NB, path)) return held(fd);
  closeFile(fd);
  return undefined;
}

/**
 * As `tryLockFile`, but waits for the lock as long as it takes. The whole thread waits, timers and sockets included: only for locks
 * that are held for a few synchronous calls, never for the node's (ipam-plugin/node-lock.ts).
 */
export function lockFile(path: string): Disposable {
  const fd = openLock(path);
  // The runtime may overwrite errno between the call and the look at it, so only success counts as success.
  while (!flock(fd, LOCK_EX, path)) Bun.sleepSync(PAUSE_MS);
  return held(fd);
}

function held(fd: number): Disposable {
  return {
    [Symbol.dispose]() {
      libc().flock(fd, LOCK_UN);
      closeFile(fd);
    },
  };
}

/** The directory is missing at most once after each boot, so it is made only when the open says so. */
function openLock(path: string): number {
  try {
    return openFile(path, OPEN_LOCK, 0o600);
  } catch (error) {
    if (systemErrorCode(error) !== "ENOENT") throw error;
    makeDirectories(directoryOf(path), 0o755);
    return openFile(path, OPEN_LOCK, 0o600);
  }
}

/** @returns whether the lock is held now; `false` when somebody else holds it. @throws Error for every other failure */
function flock(fd: number, operation: number, path: string): boolean {
  for (;;) {
    if (libc().flock(fd, operation) === 0) return true;
    const errno = lastErrno();
    if (errno === EWOULDBLOCK) return false;
    if (errno === EINTR) continue;
    closeFile(fd);
    throw new Error(`cannot lock ${path}: ${errnoText(errno)} (${errnoName(errno)})`);
  }
}
