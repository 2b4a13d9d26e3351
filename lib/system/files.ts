/**
 * Does the few things that the plugins do with files, over node:fs: errors say which call failed on which path, and every wait has a limit.
 */
import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  existsSync,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statfsSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { errnoName, errnoOf, errnoText, systemErrorCode } from "./errno.ts";

export const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_EXCL, O_APPEND, O_NONBLOCK, O_NOFOLLOW } = constants;

const FIRST_READ = 4096;

/** A reader that is silent for so long has given up. */
const WAIT_LIMIT_MS = 30_000;
const SHORTEST_WAIT_MS = 1;
const LONGEST_WAIT_MS = 50;

/** Reports a system call that failed: `code` is the name of its error, "ENOENT". */
export class SystemError extends Error {
  override readonly name = "SystemError";
  readonly code: string;
  readonly errno: number;

  constructor(call: string, path: string, errno: number) {
    super(`${call} ${path}: ${errnoText(errno)}`);
    this.code = errnoName(errno);
    this.errno = errno;
  }
}

export interface FileStatus {
  /** Device and inode as one text: equal for two names of one file. */
  readonly identity: string;
  readonly size: number;
  /** Names that the file has; 0 for an open file that was removed. */
  readonly links: number;
  readonly isFile: boolean;
  /** Permissions and file type (inode(7)). */
  readonly mode: number;
  /** User id of the owner. */
  readonly owner: number;
  /** Seconds since 1970. */
  readonly modified: number;
}

/** @param flags of open(2); the descriptor is never inherited by other programs. @throws SystemError */
export function openFile(path: string, flags: number, mode = 0): number {
  return attempt("open", path, () => openSync(path, flags, mode));
}

/** Does as `openFile`; where a directory above is missing, makes it with mode 0755: at most once after each boot. */
export function openMakingDirectories(path: string, flags: number, mode: number): number {
  try {
    return openFile(path, flags, mode);
  } catch (error) {
    if (systemErrorCode(error) !== "ENOENT") throw error;
    makeDirectories(directoryOf(path), 0o755);
    return openFile(path, flags, mode);
  }
}

export function closeFile(fd: number): void {
  closeSync(fd);
}

/**
 * Reads the rest of what an open file, pipe or socket has.
 * @throws SystemError, EAGAIN when a non-blocking one stays silent for `limitMs`
 */
export function readToEnd(fd: number, path = `descriptor ${fd}`, limitMs = WAIT_LIMIT_MS): Uint8Array<ArrayBuffer> {
  let buffer = new Uint8Array(FIRST_READ);
  let length = 0;
  for (;;) {
    const room = buffer.subarray(length);
    const read = unlessBusy("read", path, limitMs, () => readSync(fd, room, 0, room.length, null));
    if (read === 0) return buffer.slice(0, length);
    length += read;
    if (length === buffer.length) {
      const larger = new Uint8Array(buffer.length * 4);
      larger.set(buffer);
      buffer = larger;
    }
  }
}

/** Makes one read(2) of at most `size` bytes. @throws SystemError */
export function readOnce(fd: number, size: number, path: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  return bytes.subarray(
    0,
    attempt("read", path, () => readSync(fd, bytes, 0, size, null)),
  );
}

/** @throws SystemError; invalid UTF-8 is replaced */
export function readText(path: string): string {
  return attempt("read", path, () => readFileSync(path, "utf8"));
}

/** Writes all of `bytes`, however small the pipe is. @throws SystemError, EAGAIN when the other side takes nothing for `limitMs` */
export function writeAll(fd: number, bytes: Uint8Array, path = `descriptor ${fd}`, limitMs = WAIT_LIMIT_MS): void {
  for (let written = 0; written < bytes.length; ) {
    written += unlessBusy("write", path, limitMs, () => writeSync(fd, bytes, written, bytes.length - written));
  }
}

/** Makes one write(2), as settings below /proc/sys want it. @returns how many bytes it took @throws SystemError */
export function writeOnce(fd: number, bytes: Uint8Array, path: string): number {
  return attempt("write", path, () => writeSync(fd, bytes));
}

/** Follows symbolic links. @returns `undefined` when nothing is there @throws SystemError for any other reason */
export function statusOf(path: string): FileStatus | undefined {
  return unlessMissing(() => readStatus(path, () => statSync(path, { bigint: true })));
}

/** Does as `statusOf`, for callers to whom what cannot be looked at is as good as not there. */
export function statusIfSeen(path: string): FileStatus | undefined {
  return ifReadable(() => statusOf(path));
}

/** Status of an open file. @throws SystemError */
export function statusOfOpen(fd: number): FileStatus {
  return readStatus(`descriptor ${fd}`, () => fstatSync(fd, { bigint: true }));
}

/** Tells whether something is at `path` that this process can see. */
export function isThere(path: string): boolean {
  return existsSync(path);
}

/** Tells whether this process may execute the file. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Reads the magic number of the file system that `path` is on (include/uapi/linux/magic.h). @throws SystemError */
export function fileSystemType(path: string): number {
  return attempt("statfs", path, () => statfsSync(path).type);
}

/**
 * Makes a directory and those above it, each with this mode whatever the process's umask is; what is there already stays as it is.
 * @throws SystemError
 */
export function makeDirectories(path: string, mode: number): void {
  if (isMadeNow(path, mode)) return;
  makeDirectories(directoryOf(path), mode);
  isMadeNow(path, mode);
}

/** @returns `false` when its parent is missing */
function isMadeNow(path: string, mode: number): boolean {
  try {
    attempt("mkdir", path, () => mkdirSync(path, { mode }));
  } catch (error) {
    if (systemErrorCode(error) === "EEXIST") return true;
    if (systemErrorCode(error) === "ENOENT" && directoryOf(path) !== path) return false;
    throw error;
  }
  const directory = openFile(path, O_RDONLY | O_NOFOLLOW | constants.O_DIRECTORY);
  try {
    attempt("chmod", path, () => fchmodSync(directory, mode));
  } finally {
    closeFile(directory);
  }
  return true;
}

/** Puts a file in the place of another. @throws SystemError */
export function replaceFile(path: string, target: string): void {
  attempt("rename", target, () => renameSync(path, target));
}

/** Removes a file. Succeeds if there is none. @throws SystemError */
export function removeFile(path: string): void {
  unlessMissing(() => attempt("unlink", path, () => unlinkSync(path)));
}

/** Reads the host's name as the kernel has it. */
export function hostName(): string {
  return readText("/proc/sys/kernel/hostname").trimEnd();
}

/** Cuts a path's last part off; "." or "/" when there is no other. */
export function directoryOf(path: string): string {
  const slash = path.replace(/\/+$/, "").lastIndexOf("/");
  if (slash < 0) return ".";
  return slash === 0 ? "/" : path.slice(0, slash);
}

/** Gives the last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function readStatus(path: string, call: () => BigIntStats): FileStatus {
  const status = attempt("stat", path, call);
  return {
    identity: `${status.dev}:${status.ino}`,
    size: Number(status.size),
    links: Number(status.nlink),
    isFile: status.isFile(),
    mode: Number(status.mode),
    owner: Number(status.uid),
    modified: Number(status.mtimeMs / 1000n),
  };
}

/** Gives the call's result; its failure as a SystemError. */
function attempt<T>(call: string, path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new SystemError(syscallOf(error) ?? call, shown(path), errnoOf(error));
  }
}

/** Reading a whole file begins with opening it: the call that failed is the one to name. */
function syscallOf(error: unknown): string | undefined {
  const isNamed = typeof error === "object" && error !== null && "syscall" in error && typeof error.syscall === "string";
  return isNamed ? String(error.syscall) : undefined;
}

/** Repeats a call that a non-blocking descriptor refuses for now. */
function unlessBusy(call: string, path: string, limitMs: number, work: () => number): number {
  const end = performance.now() + limitMs;
  for (let wait = SHORTEST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      return attempt(call, path, work);
    } catch (error) {
      if (systemErrorCode(error) !== "EAGAIN" || performance.now() >= end) throw error;
      Bun.sleepSync(wait);
    }
  }
}

/** Gives what the work returns; `undefined` when what it looks for, or a directory above it, is not there. @throws every other failure */
export function unlessMissing<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT" || systemErrorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Gives what the work reads; `undefined` when that fails for any reason: for callers to whom what cannot be read is as good as not there. */
export function ifReadable<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

/** A path with a zero byte is refused before any system call; printed as it is, it would end the message in a terminal. */
function shown(path: string): string {
  return path.includes("\0") ? JSON.stringify(path) : path;
}
