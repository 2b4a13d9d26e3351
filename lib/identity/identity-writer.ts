/**
 * Creates the identity of a set of labels by one write (P§1.13): a number can be created once, so of several writers one wins, and
 * the others find out what it is.
 */
import type { IdentityIndex, IdentityStore } from "./identity-object.ts";
import type { LabelSet } from "./labels.ts";
import { candidatesOf } from "./numbers.ts";

/** Of one number, which is created and deleted by others at the same time. */
const MOST_TRIES = 3;

interface WrittenIdentity {
  readonly number: number;
  /** It was not there before. */
  readonly isNew: boolean;
}

/**
 * Creates the identity, or finds the one that somebody else has created.
 *
 * @param known what is there already: numbers of others are skipped without a request
 * @param before the number that the set had, which is tried first
 * @returns `undefined` where every candidate is another set's
 * @throws what the store throws
 */
export async function ensureIdentity(
  store: IdentityStore,
  set: LabelSet,
  known: IdentityIndex,
  before?: number,
): Promise<WrittenIdentity | undefined> {
  const numbers = new Set([...(before === undefined ? [] : [before]), ...candidatesOf(set.key)]);
  for (const number of numbers) {
    const there = known.get(number);
    if (there !== undefined && there.key !== set.key) continue;
    const owner = await claim(store, number, set);
    if (owner !== "another") return { number, isNew: owner === "new" };
  }
  return undefined;
}

/** @returns whose number it is now: it was created for the set, or is the set's already, or another's */
async function claim(store: IdentityStore, number: number, set: LabelSet): Promise<"new" | "ours" | "another"> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    if (await store.create(number, set)) return "new";
    const there = await store.get(number);
    // It was deleted between the two requests.
    if (there === undefined) continue;
    if (there.key !== set.key) return "another";
    // One that has changed since it was read is looked at again when the watch shows it.
    if (there.state === "retired") await store.setState(there, undefined);
    return "ours";
  }
  throw new Error(`identity ${number} is there and is not: it was refused and not found ${MOST_TRIES} times`);
}
