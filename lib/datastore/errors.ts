/** Names the errors of datastores: a closed set of failures (design §6), each with the word that the runtime and a person read. */
import { type ErrorWord, TortieError } from "../errors/errors.ts";
import { inTime as within } from "../system/waiting.ts";

export type DatastoreFailure = "not-found" | "already-exists" | "conflict" | "unauthorized" | "unavailable" | "invalid";

const WORDS: Readonly<Record<DatastoreFailure, ErrorWord>> = {
  "not-found": "datastore-object-missing",
  // Another writer came first: a caller that repeats the operation sees what that one wrote.
  "already-exists": "datastore-contention",
  conflict: "datastore-contention",
  unauthorized: "datastore-unauthorized",
  unavailable: "datastore-unavailable",
  invalid: "datastore-object-invalid",
};

/** The only error that a driver throws at an operation of the port. `message` names the object; `cause` keeps the driver's own error. */
export class DatastoreError extends TortieError {
  readonly failure: DatastoreFailure;

  /** @param word where it says more than the kind of failure */
  constructor(failure: DatastoreFailure, message: string, cause?: unknown, word: ErrorWord = WORDS[failure]) {
    super(word, message, { cause });
    this.name = "DatastoreError";
    this.failure = failure;
  }
}

/** Tells whether `error` is a driver's failure of one of the given kinds. */
export function isDatastoreFailure(error: unknown, ...failures: readonly DatastoreFailure[]): error is DatastoreError {
  return error instanceof DatastoreError && failures.includes(error.failure);
}

/** What keeps an answer away although something is there: more exact than the kind of failure. */
export const FAULT_WORDS = {
  untrusted: "datastore-untrusted",
  foreign: "datastore-answer-foreign",
  forbidden: "datastore-forbidden",
} as const satisfies Readonly<Record<string, ErrorWord>>;

/** Runs a write. @returns `false` when it failed in one of the given ways @throws every other failure */
export async function succeeds(write: () => Promise<unknown>, ...failures: readonly DatastoreFailure[]): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (isDatastoreFailure(error, ...failures)) return false;
    throw error;
  }
}

/** Tells whether `error` is a decision of Tortie's own, and not the failure of a datastore that could not be asked or written. */
export function isRefusal(error: unknown): error is TortieError {
  return error instanceof TortieError && !(error instanceof DatastoreError);
}

/** kubelet takes a node for broken whose runtime says nothing about itself for 30 s. */
const ANSWER_LIMIT_MS = 2_000;

/**
 * Serves questions whose answer is not worth waiting for as long as the datastore's client would.
 * @throws DatastoreError `unavailable` when there is no answer in time
 */
export function inTime<T>(answer: Promise<T>): Promise<T> {
  return within(ANSWER_LIMIT_MS, new DatastoreError("unavailable", `no answer within ${ANSWER_LIMIT_MS / 1000} s`), answer);
}
