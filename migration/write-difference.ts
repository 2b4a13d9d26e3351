/** Writes a difference to the target, so many objects at once as its server takes well. */
import type { Datastore } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { KindDifference } from "./difference.ts";

/** Requests under way at once to a server; a file takes one writer. */
const WIDTH = 8;

export interface Writing {
  readonly target: Datastore;
  /** Ends the work before the next object. */
  readonly signal: AbortSignal;
  /** Told after each object. */
  readonly onWritten: () => void;
}

export function writesOf({ missing, differing, extra }: KindDifference): number {
  return missing.length + differing.length + extra.length;
}

/**
 * What another writer has changed since it was compared is left to the next comparison.
 * @throws DatastoreError; the signal's reason
 */
export async function writeDifference({ missing, differing, extra }: KindDifference, writing: Writing): Promise<void> {
  const { target } = writing;
  const works = [
    ...extra.map((object) => () => object.remove()),
    ...differing.map(
      ({ object, there }) =>
        () =>
          object.replace(target, there.revision),
    ),
    ...missing.map(
      ({ object, place }) =>
        () =>
          place === undefined ? object.create(target) : object.replace(target, place.revision),
    ),
  ].values();
  const width = target.traits.poolsFrom === "netconf" ? 1 : WIDTH;
  // What fails once, such as a server that is gone, would fail for all that is left.
  const failed = new AbortController();
  const signal = AbortSignal.any([writing.signal, failed.signal]);
  const workers = Array.from({ length: width }, async () => {
    try {
      await work(works, { ...writing, signal });
    } catch (error) {
      failed.abort(error);
    }
  });
  await Promise.all(workers);
  signal.throwIfAborted();
}

/** Workers share one iterator: each takes the next piece of work. */
async function work(works: Iterator<() => Promise<void>>, { signal, onWritten }: Writing): Promise<void> {
  for (let next = works.next(); next.done !== true; next = works.next()) {
    signal.throwIfAborted();
    try {
      await next.value();
    } catch (error) {
      if (!isDatastoreFailure(error, "already-exists", "conflict", "not-found")) throw error;
    }
    onWritten();
  }
}
