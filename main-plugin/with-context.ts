/** Failures that say first what was being done, in the words that callers of Calico's plugins look for. */
import { DatastoreError } from "../lib/datastore/errors.ts";
import { ForeignCniError, TortieError } from "../lib/errors/errors.ts";

/** @throws what `work` throws, as the same kind of error with `what` and a colon before its text */
export async function withContext<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DatastoreError) throw new DatastoreError(error.failure, `${what}: ${error.message}`, error);
    if (error instanceof ForeignCniError) throw new ForeignCniError(error.code, `${what}: ${error.message}`, error.details);
    if (!(error instanceof TortieError)) throw error;
    const { word, next, details } = error;
    throw new TortieError(word, `${what}: ${error.message}`, { cause: error, next, ...(details === undefined ? {} : { details }) });
  }
}
