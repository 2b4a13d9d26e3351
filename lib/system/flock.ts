/** flock(2): a lock that the kernel drops when its holder dies, and that Calico's `calico-ipam` respects on the same path (I§1.8). */
import { errnoName, errnoText, systemErrorCode } from "./errno.ts";
import { closeFile, directoryOf, makeDirectories, O_CREAT, O_RDONLY, openFile } from "./files.ts";
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
 * The file is created with mode 0600 and opened read-only, missing directories with mode 0755; it is never removed (I§1.8).
 * @throws Error with the path when the file cannot be opened or locked
 */
export function lockFile(path: string): FileLock {
  const fd = openLock(path);
  const hadToWait = !flock(fd, LOCK_EX | LOCK_NB, path);
  if (hadToWait) flock(fd, LOCK_EX, path);
  return {
    hadToWait,
    [Symbol.dispose]() {
      libc().flock(fd, LOCK_UN);
      closeFile(fd);
    },
  };
}

/** The directory is there but for the first time on this machine: it is made only when it is missed. */
function openLock(path: string): number {
  try {
    return openFile(path, O_RDONLY | O_CREAT, 0o600);
  } catch (error) {
    if (systemErrorCode(error) !== "ENOENT") throw error;
    makeDirectories(directoryOf(path), 0o755);
    return openFile(path, O_RDONLY | O_CREAT, 0o600);
  }
}

/** @returns whether the operation succeeded; `false` only for a lock that somebody else holds */
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
