/** How a driver's failure that nobody could handle is told to the runtime: the closed set of the port as words of the catalogue. */
import { type ErrorWord, TortieError } from "../errors/errors.ts";
import type { DatastoreError, DatastoreFailure } from "./datastore.ts";

const WORDS: Readonly<Record<DatastoreFailure, ErrorWord>> = {
  "not-found": "datastore-object-missing",
  // Somebody else wrote first: a caller that comes back will see what they wrote.
  "already-exists": "datastore-contention",
  conflict: "datastore-contention",
  unauthorized: "datastore-unauthorized",
  unavailable: "datastore-unavailable",
  invalid: "datastore-object-invalid",
};

/** The same message under its stable word; the driver's error is the cause. */
export function asTortieError(error: DatastoreError): TortieError {
  return new TortieError(WORDS[error.failure], error.message, { cause: error });
}
