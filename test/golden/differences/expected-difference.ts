/**
 * What a deliberate difference is, and what a play's differences are by that: every one must be expected, with the better outcome written
 * down, and every expected one must occur. A stale entry fails as a defect does.
 */

import type { Difference } from "../compare/compare.ts";
import { isList, type Json } from "../compare/json.ts";
import type { Suite } from "../recording/recording.ts";

/**
 * The value we want where Calico's differs: exactly this, absent (where a recorded value is given, only instead of that one), anything,
 * a text that matches, a list that is no longer than that, or one that is no longer than Calico's but for the texts that match.
 */
export type Outcome =
  | { readonly is: Json }
  | { readonly absent: true; readonly recorded?: Json }
  | { readonly matches: RegExp }
  | { readonly present: true }
  | { readonly atMost: number }
  | { readonly besides: RegExp };

/**
 * Path of a difference, segments joined by " > "; "*" stands for any one segment, "**" at the end for any rest.
 * "call 0 > objects > blocks > 10.40.0.0/26"
 */
export type Expectations = Readonly<Record<string, Outcome>>;

/** Another scenario whose outcome is the one we want, its text changed by replacements; as many calls as this scenario has. */
interface Instead {
  /** "suite/name" */
  readonly of: string;
  readonly replace?: Readonly<Record<string, string>>;
}

/** `reason`: a row of design §8, a heading of docs/project/decisions.md, or what the local store cannot have. */
export type DeliberateDifference = { readonly reason: string } & (
  | {
      readonly expect: Expectations;
      /** What is a matter of time: it may occur or not. */
      readonly races?: Expectations;
    }
  | { readonly instead: Instead }
);

export function differs(reason: string, expect: Expectations): DeliberateDifference {
  return { reason, expect };
}

/** @param of "suite/name" */
export function endsAs(of: string, reason: string, replace?: Readonly<Record<string, string>>): DeliberateDifference {
  return { reason, instead: { of, replace } };
}

export interface GeneralDifference {
  readonly name: string;
  /** Suites in which it must occur somewhere. */
  readonly suites: readonly Suite[];
  readonly reason: string;
  readonly expect: Expectations;
}

export interface Classification {
  /** Differences that nobody expects: defects. */
  readonly unexpected: readonly Difference[];
  /** Paths of this scenario's list that did not occur. */
  readonly stale: readonly string[];
  /** Names of the general differences that occurred. */
  readonly general: ReadonlySet<string>;
}

/**
 * @param own the scenario's own list
 * @param races its differences that need not occur
 */
export function classify(
  differences: readonly Difference[],
  own: Expectations,
  general: readonly GeneralDifference[],
  races: Expectations = {},
): Classification {
  const occurred = new Set<string>();
  const met = new Set<string>();
  const unexpected = differences.filter((difference) => {
    const path = Object.keys(own).find((pattern) => isExpected(difference, pattern, own[pattern]));
    if (path !== undefined) {
      occurred.add(path);
      return false;
    }
    if (Object.keys(races).some((pattern) => isExpected(difference, pattern, races[pattern]))) return false;
    const rule = general.find(({ expect }) => Object.keys(expect).some((pattern) => isExpected(difference, pattern, expect[pattern])));
    if (rule !== undefined) met.add(rule.name);
    return rule === undefined;
  });
  return { unexpected, stale: Object.keys(own).filter((path) => !occurred.has(path)), general: met };
}

function isExpected({ path, recorded, ours }: Difference, pattern: string, outcome: Outcome | undefined): boolean {
  return outcome !== undefined && matchesPath(path, pattern.split(" > ")) && matchesOutcome(recorded, ours, outcome);
}

function matchesPath(path: readonly string[], pattern: readonly string[]): boolean {
  if (pattern[pattern.length - 1] === "**")
    return path.length >= pattern.length - 1 && matchesPath(path.slice(0, pattern.length - 1), pattern.slice(0, -1));
  return path.length === pattern.length && pattern.every((segment, index) => segment === "*" || segment === path[index]);
}

function matchesOutcome(recorded: Json | undefined, ours: Json | undefined, outcome: Outcome): boolean {
  if ("absent" in outcome) return ours === undefined && (outcome.recorded === undefined || outcome.recorded === recorded);
  if ("present" in outcome) return ours !== undefined;
  if ("atMost" in outcome) return isList(ours) && ours.length <= outcome.atMost;
  if ("besides" in outcome) return isNoLongerBesides(recorded, ours, outcome.besides);
  if ("matches" in outcome) return typeof ours === "string" && outcome.matches.test(ours);
  return JSON.stringify(ours) === JSON.stringify(outcome.is);
}

function isNoLongerBesides(recorded: Json | undefined, ours: Json | undefined, besides: RegExp): boolean {
  if (!isList(recorded) || !isList(ours)) return false;
  return ours.filter((text) => typeof text !== "string" || !besides.test(text)).length <= recorded.length;
}
