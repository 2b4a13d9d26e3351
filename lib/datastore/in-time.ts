/** A limit for questions whose answer is not worth waiting for as long as the datastore's client would. */
import { DatastoreError } from "./errors.ts";

/** kubelet takes a node for broken whose runtime says nothing about itself for 30 s. */
const ANSWER_LIMIT_MS = 2_000;

/** @throws DatastoreError `unavailable` when there is no answer in time */
export async function inTime<T>(answer: Promise<T>): Promise<T> {
  const { promise: limit, reject } = Promise.withResolvers<never>();
  const late = () => reject(new DatastoreError("unavailable", `no answer within ${ANSWER_LIMIT_MS / 1000} s`));
  const timer = setTimeout(late, ANSWER_LIMIT_MS);
  try {
    return await Promise.race([answer, limit]);
  } finally {
    clearTimeout(timer);
  }
}
