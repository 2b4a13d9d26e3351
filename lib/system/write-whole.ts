/**
 * A file that others read is replaced whole (design, invariant 8): a temporary file beside it, fsync, rename, fsync of the directory.
 * A reader sees the old content or the new one.
 */
import { closeSync, fchmodSync, fsyncSync, openSync, rmSync } from "node:fs";
import { errnoName } from "./errno.ts";
import { directoryOf, O_CREAT, O_EXCL, O_WRONLY, openFile, replaceFile, SystemError, writeAll } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

let written = 0;

/**
 * @param mode of the file, whatever the umask is
 * @param isDurable it must also survive the end of the machine's power, which costs the two fsync
 * @throws SystemError
 */
export function writeWhole(path: string, text: string, mode: number, isDurable = true): void {
  // In the same directory, for rename(2); no two writers share a name.
  const draft = `${path}.${process.pid}-${++written}.tmp`;
  try {
    writeDraft(draft, text, mode, isDurable);
    replaceFile(draft, path);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  if (isDurable) syncDirectory(directoryOf(path));
}

function writeDraft(path: string, text: string, mode: number, isDurable: boolean): void {
  const fd = openFile(path, O_WRONLY | O_CREAT | O_EXCL, mode);
  try {
    writeAll(fd, new TextEncoder().encode(text), path);
    fchmodSync(fd, mode);
    if (isDurable) fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes the names in a directory last. */
function syncDirectory(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** renameat2(2) by number, since glibc has a function for it from 2.28 on alone (asm/unistd_64.h; asm-generic/unistd.h for arm64). */
const SYS_RENAMEAT2 = process.arch === "arm64" ? 276 : 316;
/** include/uapi/linux/fcntl.h, fs.h */
const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;

/** The file system, or the kernel before 3.15, does not do it, or something is mounted on one of them. */
const CANNOT = ["EINVAL", "ENOSYS", "EBUSY"];

/**
 * Swaps two names of one file system in one step: a reader finds either both as they were, or both as they are.
 * @returns `false` when that cannot be done here, and nothing was done @throws SystemError for any other reason
 */
export function exchangeNames(one: string, other: string): boolean {
  const [from, to] = [Buffer.from(`${one}\0`), Buffer.from(`${other}\0`)];
  if (libc().syscall(SYS_RENAMEAT2, AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) === 0) return true;
  const errno = lastErrno();
  if (CANNOT.includes(errnoName(errno))) return false;
  throw new SystemError("renameat2", other, errno);
}
