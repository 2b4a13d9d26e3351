/**
 * Takes locks with flock(2), which the kernel drops when the holder dies, and which Calico's `calico-ipam` respects on the same path
 * (I§1.8).
 */
import { constants, readFileSync, statSync } from "node:fs";
import { closeFile, ifReadable, openFile, openMakingDirectories, SystemError } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/asm-generic/fcntl.h */
const LOCK_SH = 1;
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

/** Between two tries, where the kernel refuses a lock although it was asked to wait for it. */
const PAUSE_MS = 5;

/**
 * Takes the exclusive lock of a file if it is free, and never waits. Disposing unlocks and closes the file, which stays where it is.
 *
 * The file is created with mode 0600 and opened read-only, missing directories with mode 0755.
 *
 * @returns `undefined` when the lock is held already, by this process or another
 * @throws SystemError when the file cannot be opened or locked
 */
export function tryLockFile(path: string): Disposable | undefined {
  return tryLock(path, LOCK_EX);
}

/** Does as `tryLockFile`, for a lock that any number of holders share. @returns `undefined` when it is held exclusively */
export function tryShareFile(path: string): Disposable | undefined {
  return tryLock(path, LOCK_SH);
}

/** Does as `tryLockFile`, for a directory that is there, and makes nothing. */
export function tryLockDirectory(path: string): Disposable | undefined {
  const fd = openFile(path, constants.O_RDONLY | constants.O_DIRECTORY);
  if (flock(fd, LOCK_EX | LOCK_NB, path)) return held(fd);
  closeFile(fd);
  return undefined;
}

function tryLock(path: string, kind: typeof LOCK_EX | typeof LOCK_SH): Disposable | undefined {
  const fd = openMakingDirectories(path, OPEN_LOCK, 0o600);
  if (flock(fd, kind | LOCK_NB, path)) return held(fd);
  closeFile(fd);
  return undefined;
}

/**
 * Does as `tryLockFile`, but waits for the lock as long as it takes. The whole thread waits, timers and sockets included: only for locks
 * that are held for a few synchronous calls, never for the node's (ipam-plugin/node-lock.ts).
 */
export function lockFile(path: string): Disposable {
  const fd = openMakingDirectories(path, OPEN_LOCK, 0o600);
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

/** @returns whether this call took the lock; `false` when another holder has it. @throws SystemError for every other failure */
function flock(fd: number, operation: number, path: string): boolean {
  for (;;) {
    if (libc().flock(fd, operation) === 0) return true;
    const errno = lastErrno();
    if (errno === EWOULDBLOCK) return false;
    if (errno === EINTR) continue;
    closeFile(fd);
    throw new SystemError("flock", path, errno);
  }
}

/**
 * Names the holder of a lock, for messages: "pid 4711 (calico-ipam)", or "another process" for a holder outside this PID namespace.
 * /proc/locks names the process by the file's inode (proc_locks(5)).
 */
export function lockHolder(path: string): string {
  try {
    const pid = pidOf(path);
    return pid === undefined ? "another process" : `pid ${pid} (${commandOf(pid)})`;
  } catch {
    return "another process";
  }
}

/** `1: FLOCK  ADVISORY  WRITE 3287 fe:00:803067 0 EOF`; the line of a waiting process has "->" after its number. */
function locksOf(path: string): readonly (readonly string[])[] {
  const { ino } = statSync(path);
  return readFileSync("/proc/locks", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, kind, , , , file]) => kind === "FLOCK" && file?.endsWith(`:${ino}`));
}

function pidOf(path: string): number | undefined {
  const { dev, ino } = statSync(path);
  const locks = locksOf(path);
  // Some file systems (btrfs) show another device to stat(2), so the inode alone has to do when no line has the device.
  const device = deviceText(dev);
  const [, , , , text] = locks.find(([, , , , , file]) => file === `${device}:${ino}`) ?? locks[0] ?? [];
  const pid = Number(text);
  return pid > 0 ? pid : undefined;
}

/** Writes major and minor number in hexadecimal digits, two or more each (fs/locks.c; the numbers are packed as in <sys/sysmacros.h>). */
function deviceText(dev: number): string {
  const packed = BigInt(dev);
  const major = ((packed >> 8n) & 0xfffn) | ((packed >> 32n) & 0xfffff000n);
  const minor = (packed & 0xffn) | ((packed >> 12n) & 0xffffff00n);
  return [major, minor].map((number) => number.toString(16).padStart(2, "0")).join(":");
}

/** Its name only: a command line may hold secrets. */
function commandOf(pid: number): string {
  return ifReadable(() => readFileSync(`/proc/${pid}/comm`, "utf8").trim()) ?? "ended";
}
