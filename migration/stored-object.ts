/** One object of a store, ready to be written to another one: the kinds differ in their keys and values only. */

import { type ForeignFields, keepsForeignFields } from "../lib/datastore/calico/stored-kind.ts";
import type { Collection, Datastore, Versioned } from "../lib/datastore/datastore.ts";
import type { Traits } from "../lib/datastore/traits.ts";
import { canonicalText } from "./carried-value.ts";

/** What the two stores are like. */
export interface Sides {
  readonly source: Traits;
  readonly target: Traits;
}

export interface StoredObject {
  /** The same in both stores. */
  readonly id: string;
  /** For comparing. Empty: there is a place for the object and nothing in it, as in a pod without the annotations. */
  readonly text: string;
  readonly revision: string;
  /** Fields beyond the model, of stores that keep them. */
  readonly foreign: ForeignFields | undefined;
  /** Writes this object to the other store, which has none of that id. */
  create(target: Datastore): Promise<void>;
  /** Writes this object over the one that the other store has at that revision. */
  replace(target: Datastore, revision: string): Promise<void>;
  /** Removes this object from its own store. */
  remove(): Promise<void>;
}

export interface KindOfObject {
  /** For people, in the plural: "pools". */
  readonly name: string;
  read(store: Datastore, sides: Sides): Promise<readonly StoredObject[]>;
  /** An object can only be written where the target has a place for it. */
  readonly needsPlace: (sides: Sides) => boolean;
  /** Objects of the target that the source does not have stand in its way. */
  readonly isExclusive: (sides: Sides) => boolean;
}

interface KindParts<K, T> {
  readonly name: string;
  readonly collection: (store: Datastore) => Collection<K, T>;
  readonly list: (store: Datastore) => Promise<readonly Versioned<T>[]>;
  /** Key to write to; also the id, as text. */
  readonly keyOf: (value: T, sides: Sides) => K;
  readonly idOf: (key: K) => string;
  readonly carried: (value: T) => T;
  /** What is compared of a carried value; all of it when absent. */
  readonly compared?: (value: T, sides: Sides) => unknown;
  /** Whether the object is only a place. */
  readonly isVacant?: (value: T, sides: Sides) => boolean;
  readonly needsPlace?: (sides: Sides) => boolean;
  readonly isExclusive?: (sides: Sides) => boolean;
}

export function kindOfObject<K, T>(parts: KindParts<K, T>): KindOfObject {
  const { compared = (value) => value, isVacant = () => false, collection } = parts;
  return {
    name: parts.name,
    needsPlace: parts.needsPlace ?? (() => false),
    isExclusive: parts.isExclusive ?? (() => true),
    async read(store, sides) {
      return (await parts.list(store)).map(({ value: stored, revision }) => {
        const value = parts.carried(stored);
        const key = parts.keyOf(value, sides);
        const from = collection(store);
        const foreign = keepsForeignFields<K, T>(from) ? from.foreignFields(key, revision) : undefined;
        return {
          id: parts.idOf(key),
          text: isVacant(value, sides) ? "" : canonicalText(compared(value, sides)),
          revision,
          foreign,
          async create(target) {
            const to = collection(target);
            if (foreign !== undefined && keepsForeignFields<K, T>(to)) await to.createWith(key, value, foreign);
            else await to.create(key, value);
          },
          async replace(target, at) {
            await collection(target).update(key, value, at);
          },
          remove: () => collection(store).delete(key, revision),
        };
      });
    },
  };
}
