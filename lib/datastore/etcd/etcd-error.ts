/** How a request to etcd ends that did not do what it asked, and what that means to the datastore port. */
import { DatastoreError, type DatastoreFailure } from "../errors.ts";

/** gRPC's status codes, as the JSON gateway passes them on (etcd's api/v3rpc/rpctypes/error.go). 0: no member has answered. */
export const CODES = {
  none: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** `message` names the member and the request, and holds nothing secret. There is no cause: a log shows causes as they came. */
export class EtcdError extends Error {
  readonly code: number;
  /** An answer was lost, of this try or of an earlier one: a write may have been carried out. */
  readonly isRepetition: boolean;

  constructor(message: string, { code, isRepetition }: Pick<EtcdError, "code" | "isRepetition">) {
    super(message);
    this.name = "EtcdError";
    this.code = code;
    this.isRepetition = isRepetition;
  }
}

/** What a member said instead of an answer. */
export interface Refusal {
  readonly code: number;
  readonly message: string;
}

/** etcd's words for a backend that has reached its quota; the alarm stays until an operator disarms it. */
const FULL = "database space exceeded";
/** The member asked is without a leader, or lost it, or is too busy: another one, or the same one later, may answer. */
const PASSING: readonly number[] = [CODES.unavailable, CODES.deadlineExceeded];

export function isFull({ message }: Refusal): boolean {
  return message.includes(FULL);
}

/** The request or its answer is over a limit of gRPC's (--max-request-bytes), which no other member and no later time changes. */
export function isTooLarge({ code, message }: Refusal): boolean {
  return code === CODES.resourceExhausted && message.includes("message larger than max");
}

export function isPassing(refusal: Refusal): boolean {
  return PASSING.includes(refusal.code) || (refusal.code === CODES.resourceExhausted && !isFull(refusal) && !isTooLarge(refusal));
}

/** The token is unknown (members forget them), or was made before the users were changed, or is missing. */
export function wantsNewToken({ code, message }: Refusal): boolean {
  return code === CODES.unauthenticated || /user name is empty|revision of auth store is old/.test(message);
}

export function isCompacted(error: unknown): boolean {
  return error instanceof EtcdError && error.code === CODES.outOfRange && error.message.includes("has been compacted");
}

/**
 * What a refused request means to the datastore port. Most messages begin as Calico's do.
 *
 * @param what the object: "IPAMBlock(/calico/ipam/v2/assignment/ipv4/block/10.0.0.0-26)"
 * @param user who asked; empty without authentication
 * @returns anything but an EtcdError as it came
 */
export function asDatastoreError(error: unknown, what: string, user: string): unknown {
  if (!(error instanceof EtcdError)) return error;
  const failure = failureOf(error);
  return new DatastoreError(failure, messageFor(failure, error, what, user), error);
}

function failureOf(error: EtcdError): DatastoreFailure {
  if (wantsNewToken(error)) return "unauthorized";
  if (isTooLarge(error)) return "invalid";
  switch (error.code) {
    case CODES.permissionDenied:
    case CODES.unauthenticated:
      return "unauthorized";
    case CODES.invalidArgument:
      // Of a wrong password too (rpctypes.ErrGRPCAuthFailed).
      return error.message.includes("authentication failed") ? "unauthorized" : "invalid";
    case CODES.none:
    case CODES.unavailable:
    case CODES.deadlineExceeded:
    case CODES.resourceExhausted:
    case CODES.outOfRange:
      return "unavailable";
    default:
      return error.message.includes("authentication is not enabled") ? "unauthorized" : "invalid";
  }
}

function messageFor(failure: DatastoreFailure, error: EtcdError, what: string, user: string): string {
  if (isFull(error)) return `${what}: ${error.message}: compact and defragment etcd, or raise its quota, then disarm the alarm NOSPACE`;
  // Whoever is away is to blame, not the object that happened to be asked for first.
  if (failure === "unavailable") return `${error.message} (${what})`;
  if (failure !== "unauthorized") return `${what}: ${error.message}`;
  return `connection is unauthorized: ${error.message} (${what}; ${whatToGrant(error, user)})`;
}

function whatToGrant({ code, message }: EtcdError, user: string): string {
  if (message.includes("authentication is not enabled")) return "etcd has no users switched on: unset ETCD_USERNAME";
  if (code !== CODES.permissionDenied)
    return user === "" ? "set ETCD_USERNAME and ETCD_PASSWORD" : `check the password of etcd's user "${user}"`;
  return `grant ${user === "" ? "the client" : `user "${user}"`} the permission readwrite on the prefix /calico/`;
}
