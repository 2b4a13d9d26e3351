/** What a refused request means to the datastore port (C§7.6). */

import { ApiError } from "../../kubernetes/api-client.ts";
import { DatastoreError, type DatastoreFailure } from "../errors.ts";

/**
 * The messages begin as Calico's do, so that a search for those finds them.
 *
 * @param what the object: "IPAMBlock(10-0-0-0-26)"
 */
export function asDatastoreError(error: ApiError, what: string): DatastoreError {
  const failure = failureOfStatus(error);
  return new DatastoreError(failure, messageFor(failure, error, what), error);
}

function failureOfStatus(error: ApiError): DatastoreFailure {
  switch (error.status) {
    case 401:
    case 403:
      return "unauthorized";
    case 404:
      return "not-found";
    case 409:
      if (error.reason === "AlreadyExists") return "already-exists";
      // A precondition on the uid failed: a new object has that name.
      return error.explanation.includes("UID in precondition") ? "not-found" : "conflict";
    case 422:
      return invalidFailure(error);
    default:
      return error.status === 0 || error.status === 429 || error.status >= 500 ? "unavailable" : "invalid";
  }
}

/** A patch that carries uid or resourceVersion as a precondition is refused as an attempt to change them. */
function invalidFailure({ causes }: ApiError): DatastoreFailure {
  if (causes.length > 0 && causes.every(({ field }) => field === "metadata.uid")) return "not-found";
  if (causes.length > 0 && causes.every(({ field }) => field === "metadata.resourceVersion")) return "conflict";
  return "invalid";
}

function messageFor(failure: DatastoreFailure, error: ApiError, what: string): string {
  switch (failure) {
    case "not-found":
      return `resource does not exist: ${what} with error: ${error.explanation}`;
    case "already-exists":
      return `resource already exists: ${what} with error: ${error.explanation}`;
    case "conflict":
      return `update conflict: ${what}: ${error.explanation}`;
    case "unauthorized":
      return `connection is unauthorized: ${error.explanation} (${what}; ${whatToGrant(error)})`;
    case "unavailable":
      return `${what}: ${error.message}`;
    case "invalid":
      return `${what}: ${error.explanation}`;
  }
}

/** The server's own words name the verb, the resource and the group, for it knows how roles see this request. */
function whatToGrant(error: ApiError): string {
  if (error.status === 401) return `the API server does not know ${error.identity || "these credentials"}: renew the token or certificate`;
  const words = /^([^ ]+) .*User "(.*)" cannot ([a-z]+) resource "([^"]+)" in API group "([^"]*)"/s.exec(error.explanation);
  if (words === null) return "grant it what it may not do";
  const [, , user, verb, resource, group] = words;
  return `grant user ${JSON.stringify(user)} the verb ${verb} on ${resource} in API group "${group}"`;
}

/**
 * An ApiError as the datastore port has it; anything else unchanged.
 * @param what the object or list that was asked for, for the message: "IPAMBlock(10-40-0-8-29)"
 */
export function failureOf(error: unknown, what: string): unknown {
  return error instanceof ApiError ? asDatastoreError(error, what) : error;
}

/** Whether the server may have done what it was asked, although its answer was lost. */
export function isAnswerLost(error: unknown): boolean {
  return error instanceof ApiError && error.isRepetition;
}

export function hasStatus(error: unknown, status: number): error is ApiError {
  return error instanceof ApiError && error.status === status;
}
