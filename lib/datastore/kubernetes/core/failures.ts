/** Telling the refusals of an API server apart. */
import { ApiError } from "../../../kubernetes/api-client.ts";
import { asDatastoreError } from "../as-datastore-error.ts";

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
