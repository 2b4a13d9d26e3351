/** What a list of deliberate differences takes over from another one: a scenario that differs on both stores. */
import type { DeliberateDifference, Expectations } from "./expected-difference.ts";

/** @throws Error when the other list does not have the scenario */
export function differenceOf(list: Readonly<Record<string, DeliberateDifference>>, name: string): DeliberateDifference {
  const listed = list[name];
  if (listed === undefined) throw new Error(`the local store has no list for ${name}`);
  return listed;
}

/** @throws Error for one that ends as another scenario does */
export function withExpectations(listed: DeliberateDifference, more: Expectations): DeliberateDifference {
  if (!("expect" in listed)) throw new Error("what ends as another scenario does has that one's expectations");
  return { ...listed, expect: { ...listed.expect, ...more } };
}
