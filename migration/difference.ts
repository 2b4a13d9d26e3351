/** Finds what has to be written so that the target holds what the source holds, and writes it: so many objects at once as a server takes well. */
import type { Datastore } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { KindOfObject, Sides, StoredObject } from "./kinds.ts";

/** Describes one kind, as both stores hold it. */
export interface KindDifference {
  readonly kind: KindOfObject;
  /** Lists what is in the source and not in the target. */
  readonly missing: readonly { readonly object: StoredObject; readonly place: StoredObject | undefined }[];
  /** Lists what is in both, and not the same. */
  readonly differing: readonly { readonly object: StoredObject; readonly there: StoredObject }[];
  /** Lists what is in the target alone. */
  readonly extra: readonly StoredObject[];
  /** Lists what of the source has no place in the target. */
  readonly homeless: readonly StoredObject[];
  /** Counts what is in both, and the same. */
  readonly same: number;
  /** Objects that fields beyond the model were left behind of, each with their names. */
  readonly shortened: readonly string[];
}

export function differenceOf(
  kind: KindOfObject,
  source: readonly StoredObject[],
  target: readonly StoredObject[],
  sides: Sides,
): KindDifference {
  const there = new Map(target.map((object) => [object.id, object]));
  const missing: { object: StoredObject; place: StoredObject | undefined }[] = [];
  const differing: { object: StoredObject; there: StoredObject }[] = [];
  const homeless: StoredObject[] = [];
  const shortened: string[] = [];
  let same = 0;
  const wanted = source.filter(({ text }) => text !== "");
  for (const object of wanted) {
    const other = there.get(object.id);
    if (other === undefined && kind.needsPlace(sides)) homeless.push(object);
    else if (other === undefined || other.text === "") missing.push({ object, place: other });
    else if (other.text !== object.text) differing.push({ object, there: other });
    else {
      same++;
      const left = fieldsLeftBehind(object, other);
      if (left.length > 0) shortened.push(`${object.id}: ${left.join(", ")}`);
    }
  }
  const ids = new Set(wanted.map(({ id }) => id));
  const extra = kind.isExclusive(sides) ? target.filter(({ id, text }) => text !== "" && !ids.has(id)) : [];
  return { kind, missing, differing, extra, homeless, same, shortened };
}

/** Tells whether the target holds what differs from the source: nothing of that comes from a migration that was cut short. */
export function isForeign({ differing, extra }: KindDifference): boolean {
  return differing.length + extra.length > 0;
}

export function isEqual(difference: KindDifference): boolean {
  return difference.missing.length === 0 && !isForeign(difference);
}

/** Lists values that mean nothing to a store that does not know the field. */
const MEANS_NOTHING: readonly unknown[] = [undefined, null, false, "", "Never"];

function fieldsLeftBehind({ foreign: ours }: StoredObject, { foreign: theirs }: StoredObject): readonly string[] {
  if (ours === undefined) return [];
  return Object.entries(ours.spec)
    .filter(([name, value]) => !MEANS_NOTHING.includes(value) && !Bun.deepEquals(value, theirs?.spec[name]))
    .map(([name]) => `spec.${name}`);
}

/** Requests under way at once to a server; a file takes one writer. */
const WIDTH = 8;

interface Writing {
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
 * Writes the difference, and leaves what another writer has changed since to the next comparison.
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
