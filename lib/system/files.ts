/**
 * The few things that the plugins do with files, straight on the C library: node:fs costs every ADD and DEL 1.3 ms and 6 MiB merely to
 * load (docs/decisions.md). Whatever is not on the way of ADD and DEL uses node:fs.
 */
import { errnoName, errnoText } from "./errno.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/asm-generic/fcntl.h; the same on x86-64 and arm64 but for those that are not used here. */
export const O_RDONLY = 0;
export const O_WRONLY = 1;
export const O_RDWR = 2;
export const O_CREAT = 0o100;
export const O_EXCL = 0o200;
export const O_APPEND = 0o2000;
export const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;

const AT_FDCWD = -100;
const F_OK = 0;
const X_OK = 1;
const EINTR = 4;
const EAGAIN = 11;
const EEXIST = 17;
/** include/uapi/linux/stat.h */
const STATX_BASIC_STATS = 0x7ff;
const S_IFMT = 0o170000;
const S_IFREG = 0o100000;
const AT_EMPTY_PATH = 0x1000;
const STATX = { bytes: 256, links: 16, mode: 28, inode: 32, size: 40, deviceMajor: 136, deviceMinor: 140, modified: 112 } as const;
/** struct statfs begins with f_type, a long. */
const STATFS_BYTES = 256;

const FIRST_READ = 4096;

/** A system call that failed: `code` is the name of its error, "ENOENT". */
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
  /** Seconds since 1970. */
  readonly modified: number;
}

/** @param flags of open(2); the descriptor is never inherited by other programs. @throws SystemError */
export function openFile(path: string, flags: number, mode = 0): number {
  for (;;) {
    const fd = libc().open(cString(path), flags | O_CLOEXEC, mode);
    if (fd >= 0) return fd;
    const errno = lastErrno();
    if (errno !== EINTR) throw new SystemError("open", path, errno);
  }
}

export function closeFile(fd: number): void {
  libc().close(fd);
}

/** The rest of what an open file, pipe or socket has. @throws SystemError */
export function readToEnd(fd: number, path = `descriptor ${fd}`): Uint8Array<ArrayBuffer> {
  let buffer = new Uint8Array(FIRST_READ);
  let length = 0;
  for (;;) {
    const room = buffer.subarray(length);
    const read = libc().read(fd, room, room.length);
    if (read === 0) return buffer.slice(0, length);
    if (read < 0) {
      const errno = lastErrno();
      if (errno === EINTR) continue;
      if (errno === EAGAIN) {
        Bun.sleepSync(1);
        continue;
      }
      throw new SystemError("read", path, errno);
    }
    length += read;
    if (length === buffer.length) {
      const larger = new Uint8Array(buffer.length * 4);
      larger.set(buffer);
      buffer = larger;
    }
  }
}

/** One read(2) of at most `size` bytes. @throws SystemError */
export function readOnce(fd: number, size: number, path: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  const read = libc().read(fd, bytes, size);
  if (read < 0) throw new SystemError("read", path, lastErrno());
  return bytes.subarray(0, read);
}

/** @throws SystemError */
export function readFile(path: string): Uint8Array<ArrayBuffer> {
  const fd = openFile(path, O_RDONLY);
  try {
    return readToEnd(fd, path);
  } finally {
    closeFile(fd);
  }
}

/** @throws SystemError; invalid UTF-8 is replaced */
export function readText(path: string): string {
  return new TextDecoder().decode(readFile(path));
}

/** Writes all of `bytes`, however small the pipe is. @throws SystemError */
export function writeAll(fd: number, bytes: Uint8Array, path = `descriptor ${fd}`): void {
  for (let rest = bytes; rest.length > 0; ) {
    const written = libc().write(fd, rest, rest.length);
    if (written >= 0) {
      rest = rest.subarray(written);
      continue;
    }
    const errno = lastErrno();
    if (errno === EAGAIN) Bun.sleepSync(1);
    else if (errno !== EINTR) throw new SystemError("write", path, errno);
  }
}

/** One write(2), as settings below /proc/sys want it. @returns how many bytes it took @throws SystemError */
export function writeOnce(fd: number, bytes: Uint8Array, path: string): number {
  const written = libc().write(fd, bytes, bytes.length);
  if (written < 0) throw new SystemError("write", path, lastErrno());
  return written;
}

/** Follows symbolic links. @returns `undefined` when nothing is there @throws SystemError for any other reason */
export function statusOf(path: string): FileStatus | undefined {
  try {
    return readStatus(AT_FDCWD, path, 0);
  } catch (error) {
    if (error instanceof SystemError && (error.code === "ENOENT" || error.code === "ENOTDIR")) return undefined;
    throw error;
  }
}

/** Status of an open file. @throws SystemError */
export function statusOfOpen(fd: number): FileStatus {
  return readStatus(fd, "", AT_EMPTY_PATH);
}

function readStatus(directory: number, path: string, flags: number): FileStatus {
  const bytes = new Uint8Array(STATX.bytes);
  while (libc().statx(directory, cString(path), flags, STATX_BASIC_STATS, bytes) !== 0) {
    const errno = lastErrno();
    // No answer of statx(2): a lock of the runtime was in between, and has put its own errno in the place.
    if (errno !== EAGAIN) throw new SystemError("stat", path === "" ? `descriptor ${directory}` : path, errno);
  }
  const view = new DataView(bytes.buffer);
  return {
    identity: `${view.getUint32(STATX.deviceMajor, true)}:${view.getUint32(STATX.deviceMinor, true)}:${view.getBigUint64(STATX.inode, true)}`,
    links: view.getUint32(STATX.links, true),
    size: Number(view.getBigUint64(STATX.size, true)),
    isFile: (view.getUint16(STATX.mode, true) & S_IFMT) === S_IFREG,
    modified: Number(view.getBigInt64(STATX.modified, true)),
  };
}

/** Whether something is at `path` that this process can see. Cheaper than an exception that says so. */
export function isThere(path: string): boolean {
  return libc().access(cString(path), F_OK) === 0;
}

/** Whether this process may execute the file. */
export function isExecutable(path: string): boolean {
  return libc().access(cString(path), X_OK) === 0;
}

/** The magic number of the file system that `path` is on (include/uapi/linux/magic.h). @throws SystemError */
export function fileSystemType(path: string): number {
  const bytes = new Uint8Array(STATFS_BYTES);
  if (libc().statfs(cString(path), bytes) !== 0) throw new SystemError("statfs", path, lastErrno());
  return new DataView(bytes.buffer).getUint32(0, true);
}

/** Makes a directory and those above it; what is there already stays as it is. @throws SystemError */
export function makeDirectories(path: string, mode: number): void {
  if (libc().mkdir(cString(path), mode) === 0) return;
  const failure = new SystemError("mkdir", path, lastErrno());
  if (failure.errno === EEXIST) return;
  const parent = directoryOf(path);
  if (failure.code !== "ENOENT" || parent === path) throw failure;
  makeDirectories(parent, mode);
  if (libc().mkdir(cString(path), mode) === 0) return;
  const second = new SystemError("mkdir", path, lastErrno());
  // Somebody else made it in between.
  if (second.errno !== EEXIST) throw second;
}

/** Puts a file in the place of another. @throws SystemError */
export function replaceFile(path: string, target: string): void {
  if (libc().rename(cString(path), cString(target)) !== 0) throw new SystemError("rename", target, lastErrno());
}

/** Removes a file; none there is fine. @throws SystemError */
export function removeFile(path: string): void {
  if (libc().unlink(cString(path)) === 0) return;
  const failure = new SystemError("unlink", path, lastErrno());
  if (failure.code !== "ENOENT") throw failure;
}

/** The host's name as the kernel has it. */
export function hostName(): string {
  const bytes = new Uint8Array(256);
  libc().gethostname(bytes, bytes.length - 1);
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

/** Path without its last part; "." or "/" when there is no other. */
export function directoryOf(path: string): string {
  const slash = path.replace(/\/+$/, "").lastIndexOf("/");
  if (slash < 0) return ".";
  return slash === 0 ? "/" : path.slice(0, slash);
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** @throws SystemError EINVAL for a path with a zero byte, which the kernel would cut there */
function cString(path: string): Uint8Array {
  if (path.includes("\0")) throw new SystemError("open", JSON.stringify(path), 22);
  return new TextEncoder().encode(`${path}\0`);
}
