/** flock(2): a lock that the kernel drops when its holder dies, and that Calico's `calico-ipam` respects on the same path (I§1.8). */
import { closeSync, constants, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { errnoName, errnoText } from "./errno.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/asm-generic/fcntl.h */
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;
const EINTR = 4;
const EWOULDBLOCK = 11;

/** A lock that is held; disposing it unlocks and closes the file, which stays where it is. */
export interface FileLock extends Disposable {
  /** Whether somebody else held the lock when it was asked for. */
  readonly hadToWait: boolean;
}

/**
 * Takes the exclusive lock of a file, waiting for it as long as it takes: start every time limit after this call (design, invariant 8).
 *
 * The wait blocks the whole thread, timers and sockets included, and so costs nothing and keeps the kernel's first-come order. Call it where
 * nothing else of this process has to go on meanwhile.
 *
 * The file is created with mode 0600 and opened read-only, missing directories with mode 0777 less the umask; it is never removed (I§1.8).
 * @throws Error with the path when the file cannot be opened or locked
 */
export function lockFile(path: string): FileLock {
  mkdirSync(dirname(path), { recursive: true });
  const fd = openSync(path, constants.O_RDONLY | constants.O_CREAT, 0o600);
  const hadToWait = !flock(fd, LOCK_EX | LOCK_NB, path);
  if (hadToWait) flock(fd, LOCK_EX, path);
  return {
    hadToWait,
    [Symbol.dispose]() {
      libc().flock(fd, LOCK_UN);
      closeSync(fd);
    },
  };
}

/** @returns whether the operation succeeded; `false` only for a lock that somebody else holds */
function flock(fd: number, operation: number, path: string): boolean {
  for (;;) {
    if (libc().flock(fd, operation) === 0) return true;
    const errno = lastErrno();
    if (errno === EWOULDBLOCK) return false;
    if (errno === EINTR) continue;
    closeSync(fd);
    throw new Error(`cannot lock ${path}: ${errnoText(errno)} (${errnoName(errno)})`);
  }
}
