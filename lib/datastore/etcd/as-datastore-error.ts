/** What a refused request to etcd means to the datastore port. Most messages begin as Calico's do. */
import { DatastoreError, type DatastoreFailure } from "../errors.ts";
import { CODES, EtcdError, isFull, isTooLarge, wantsNewToken } from "./client/etcd-error.ts";

/**
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
