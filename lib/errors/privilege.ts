/** Whether something failed for want of privilege: one rule for every error that a person sees. */
import { TortieError } from "./errors.ts";

const EPERM = 1;
const EACCES = 13;

/**
 * The error to tell: `privilege-missing` with the message of `error` where the kernel refused something for want of privilege, else `error`
 * itself. That is EPERM, or EACCES unless the process is root, anywhere among the causes: what failed first is the reason, and the advice of
 * the layers above it ("remove that file") would do harm.
 *
 * @param effectiveUser user id of the process
 */
export function namingPrivilege(error: unknown, effectiveUser: number | undefined = process.geteuid?.()): unknown {
  if (!(error instanceof Error) || (error instanceof TortieError && error.word === "privilege-missing")) return error;
  if (!causesOf(error).some((each) => isRefusal(each, effectiveUser === 0))) return error;
  const details = error instanceof TortieError ? error.details : undefined;
  return new TortieError("privilege-missing", error.message, { cause: error, ...(details !== undefined && { details }) });
}

/** The error, what caused it, what caused that. Not `instanceof Error`: under Jest the errors of node:fs come from another realm. */
function causesOf(error: object): readonly object[] {
  const causes = [error];
  for (let each: object = error; causes.length < MOST_CAUSES && "cause" in each; ) {
    if (typeof each.cause !== "object" || each.cause === null) break;
    each = each.cause;
    causes.push(each);
  }
  return causes;
}

/** A chain that leads back to itself ends here. */
const MOST_CAUSES = 16;

function isRefusal(error: object, isRoot: boolean): boolean {
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  // Errors of the kernel's netlink answers have the number alone.
  const errno = "errno" in error && typeof error.errno === "number" ? Math.abs(error.errno) : undefined;
  const [isPermission, isAccess] = code === undefined ? [errno === EPERM, errno === EACCES] : [code === "EPERM", code === "EACCES"];
  return isPermission || (isAccess && !isRoot);
}
