/** Swaps two names of one file system in one step: a reader finds either both as they were, or both as they are. */
import { errnoName } from "./errno.ts";
import { SystemError } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** renameat2(2) by number, since glibc has a function for it from 2.28 on alone (asm/unistd_64.h; asm-generic/unistd.h for arm64). */
const SYS_RENAMEAT2 = process.arch === "arm64" ? 276 : 316;
/** include/uapi/linux/fcntl.h, fs.h */
const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;

/** The file system, or the kernel before 3.15, does not do it, or something is mounted on one of them. */
const CANNOT = ["EINVAL", "ENOSYS", "EBUSY"];

/** @returns `false` when that cannot be done here, and nothing was done @throws SystemError for any other reason */
export function exchangeNames(one: string, other: string): boolean {
  const [from, to] = [Buffer.from(`${one}\0`), Buffer.from(`${other}\0`)];
  if (libc().syscall(SYS_RENAMEAT2, AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) === 0) return true;
  const errno = lastErrno();
  if (CANNOT.includes(errnoName(errno))) return false;
  throw new SystemError("renameat2", other, errno);
}
