/** System errors as the runtime throws them. */

/** Whether `error` is the failure of a system call with this name, for instance "EAGAIN". */
export function isSystemError(error: unknown, code: string): boolean {
  return typeof error === "object" && error !== null && "code" in error && error.code === code;
}
