/** What a test does to stored objects behind the back of whoever works on them: it asks for no more than that they are there. */
import type { Collection, Versioned } from "../../lib/datastore/datastore.ts";

export async function wanted<T>(reading: Promise<T | undefined>): Promise<T> {
  const value = await reading;
  if (value === undefined) throw new Error("not there");
  return value;
}

/** Writes an object with these changes. */
export async function change<K, T>(collection: Collection<K, T>, key: K, changes: Partial<T>): Promise<Versioned<T>> {
  const { value, revision } = await wanted(collection.get(key));
  return collection.update(key, { ...value, ...changes }, revision);
}

export async function remove<K>(collection: Collection<K, unknown>, key: K): Promise<void> {
  const { revision } = await wanted(collection.get(key));
  await collection.delete(key, revision);
}
