/** What has to be written so that the target holds what the source holds (pure). */
import type { KindOfObject, Sides, StoredObject } from "./stored-object.ts";

/** One kind, as both stores hold it. */
export interface KindDifference {
  readonly kind: KindOfObject;
  /** In the source and not in the target. */
  readonly missing: readonly { readonly object: StoredObject; readonly place: StoredObject | undefined }[];
  /** In both, and not the same. */
  readonly differing: readonly { readonly object: StoredObject; readonly there: StoredObject }[];
  /** In the target alone. */
  readonly extra: readonly StoredObject[];
  /** Of the source, for which the target has no place. */
  readonly homeless: readonly StoredObject[];
  /** In both, and the same. */
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

/** Whether the target holds what differs from the source: nothing of that comes from a migration that was cut short. */
export function isForeign({ differing, extra }: KindDifference): boolean {
  return differing.length + extra.length > 0;
}

export function isEqual(difference: KindDifference): boolean {
  return difference.missing.length === 0 && !isForeign(difference);
}

/** Values that mean nothing to a store that does not know the field. */
const MEANS_NOTHING: readonly unknown[] = [undefined, null, false, "", "Never"];

function fieldsLeftBehind({ foreign: ours }: StoredObject, { foreign: theirs }: StoredObject): readonly string[] {
  if (ours === undefined) return [];
  return Object.entries(ours.spec)
    .filter(([name, value]) => !MEANS_NOTHING.includes(value) && !Bun.deepEquals(value, theirs?.spec[name]))
    .map(([name]) => `spec.${name}`);
}
