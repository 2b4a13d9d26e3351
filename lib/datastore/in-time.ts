/** A limit for questions whose answer is not worth waiting for as long as the datastore's client would. */
import { inTime as within } from "../system/waiting.ts";
import { DatastoreError } from "./errors.ts";

/** kubelet takes a node for broken whose runtime says nothing about itself for 30 s. */
const ANSWER_LIMIT_MS = 2_000;

/** @throws DatastoreError `unavailable` when there is no answer in time */
export function inTime<T>(answer: Promise<T>): Promise<T> {
  return within(ANSWER_LIMIT_MS, new DatastoreError("unavailable", `no answer within ${ANSWER_LIMIT_MS / 1000} s`), answer);
}
