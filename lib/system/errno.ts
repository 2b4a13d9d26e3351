/**
 * Knows the error numbers of Linux and the words for them (include/uapi/asm-generic/errno*.h; the texts are those Go prints, which the
 * recordings hold).
 */

const EINVAL = 22;

const ERRNO: readonly (readonly [number, string, string])[] = [
  [1, "EPERM", "operation not permitted"],
  [2, "ENOENT", "no such file or directory"],
  [3, "ESRCH", "no such process"],
  [4, "EINTR", "interrupted system call"],
  [5, "EIO", "input/output error"],
  [6, "ENXIO", "no such device or address"],
  [7, "E2BIG", "argument list too long"],
  [9, "EBADF", "bad file descriptor"],
  [11, "EAGAIN", "resource temporarily unavailable"],
  [12, "ENOMEM", "cannot allocate memory"],
  [13, "EACCES", "permission denied"],
  [16, "EBUSY", "device or resource busy"],
  [17, "EEXIST", "file exists"],
  [19, "ENODEV", "no such device"],
  [20, "ENOTDIR", "not a directory"],
  [21, "EISDIR", "is a directory"],
  [22, "EINVAL", "invalid argument"],
  [23, "ENFILE", "too many open files in system"],
  [24, "EMFILE", "too many open files"],
  [27, "EFBIG", "file too large"],
  [28, "ENOSPC", "no space left on device"],
  [30, "EROFS", "read-only file system"],
  [32, "EPIPE", "broken pipe"],
  [34, "ERANGE", "numerical result out of range"],
  [36, "ENAMETOOLONG", "file name too long"],
  [38, "ENOSYS", "function not implemented"],
  [40, "ELOOP", "too many levels of symbolic links"],
  [75, "EOVERFLOW", "value too large for defined data type"],
  [80, "ELIBBAD", "accessing a corrupted shared library"],
  [90, "EMSGSIZE", "message too long"],
  [92, "ENOPROTOOPT", "protocol not available"],
  [93, "EPROTONOSUPPORT", "protocol not supported"],
  [95, "EOPNOTSUPP", "operation not supported"],
  [97, "EAFNOSUPPORT", "address family not supported by protocol"],
  [98, "EADDRINUSE", "address already in use"],
  [99, "EADDRNOTAVAIL", "cannot assign requested address"],
  [100, "ENETDOWN", "network is down"],
  [101, "ENETUNREACH", "network is unreachable"],
  [104, "ECONNRESET", "connection reset by peer"],
  [105, "ENOBUFS", "no buffer space available"],
  [107, "ENOTCONN", "transport endpoint is not connected"],
  [110, "ETIMEDOUT", "connection timed out"],
  [111, "ECONNREFUSED", "connection refused"],
  [113, "EHOSTUNREACH", "no route to host"],
  [114, "EALREADY", "operation already in progress"],
  [115, "EINPROGRESS", "operation now in progress"],
  [122, "EDQUOT", "disk quota exceeded"],
];

/** Gives the symbolic name, "EEXIST"; "errno 4242" for a number this table does not have. */
export function errnoName(errno: number): string {
  return ERRNO.find(([number]) => number === errno)?.[1] ?? `errno ${errno}`;
}

/** Says what the number means, "file exists"; "errno 4242" for a number this table does not have. */
export function errnoText(errno: number): string {
  return ERRNO.find(([number]) => number === errno)?.[2] ?? `errno ${errno}`;
}

/** Reads what a failed call of node:fs says about its errno, in the words of this table; `undefined` when `error` is not of that kind. */
export function systemErrorText(error: unknown): string | undefined {
  const code = systemErrorCode(error);
  return code === undefined ? undefined : (ERRNO.find(([, name]) => name === code)?.[2] ?? code);
}

/** Reads "ENOENT" and the like from an error of node:fs; `undefined` when `error` is not of that kind. */
export function systemErrorCode(error: unknown): string | undefined {
  // Not `instanceof Error`: under Jest the errors of node:fs come from another realm.
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

/**
 * Gives the number of a failed call of node:fs. Its refusal of a path with a zero byte, which never becomes a system call, counts as
 * EINVAL.
 */
export function errnoOf(error: unknown): number {
  const code = systemErrorCode(error);
  const known = ERRNO.find(([, name]) => name === code)?.[0];
  if (known !== undefined) return known;
  if (code === "ERR_INVALID_ARG_VALUE") return EINVAL;
  if (typeof error === "object" && error !== null && "errno" in error && typeof error.errno === "number") return Math.abs(error.errno);
  throw error;
}
