/**
 * Describes the content of our table as plain data, and what changes between two contents. What is to be changed is found in two ways: by the
 * content itself, which notes what it touches, and by comparing it with what the kernel has.
 */

import type { Elements } from "../elements.ts";
import type { BaseChain, Expression } from "../message.ts";
import type { SetShape } from "../sets.ts";

export type Rule = readonly Expression[];

export interface Chain {
  /** Packets come to it by themselves; otherwise they come from other chains only. */
  readonly hook?: BaseChain;
  readonly rules: readonly Rule[];
}

export interface NamedSet {
  readonly shape: SetShape;
  readonly elements: Elements;
}

export interface Ruleset {
  readonly counters: readonly string[];
  readonly sets: ReadonlyMap<string, NamedSet>;
  readonly chains: ReadonlyMap<string, Chain>;
}

/** Elements of a set that is there before and after. One whose verdict changes is in both. */
export interface ElementsChange {
  readonly shape: SetShape;
  readonly removed: readonly string[];
  readonly added: readonly (readonly [key: string, verdict: string])[];
  /** Says that everything in it goes first, since it holds what we cannot read. */
  readonly isFlushed?: boolean;
}

/** Says what is made, changed and deleted. What is new comes with its content. */
export interface RulesetChange {
  readonly newCounters: readonly string[];
  readonly newSets: ReadonlyMap<string, NamedSet>;
  readonly newChains: ReadonlyMap<string, Chain>;
  readonly elements: ReadonlyMap<string, ElementsChange>;
  /** Chains that are there before and after, with their new rules. */
  readonly changedChains: ReadonlyMap<string, Chain>;
  readonly goneChains: readonly string[];
  readonly goneSets: readonly string[];
  readonly goneCounters: readonly string[];
}

/** Returns the change that makes all of a ruleset where nothing is. */
export function fromNothing({ counters, sets, chains }: Ruleset): RulesetChange {
  const nothing = { elements: new Map(), changedChains: new Map(), goneChains: [], goneSets: [], goneCounters: [] };
  return { newCounters: counters, newSets: sets, newChains: chains, ...nothing };
}
