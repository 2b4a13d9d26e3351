/** The result of a scenario: played, compared with what is wanted, and held against the lists. */

import { describeDifference } from "../compare/report.ts";
import { classify } from "../differences/expected-difference.ts";
import { type Recording, readRecording, recordingText, suiteOf } from "../recording/recording.ts";
import { replay } from "./replay.ts";
import type { Runner } from "./runner.ts";

export interface Result {
  /** One text a problem: an unexpected difference, or a listed one that does not occur. Empty: the scenario is as it should be. */
  readonly problems: readonly string[];
  /** The differences that are on purpose, one text each. */
  readonly expected: readonly string[];
  /** Names of the general differences that occurred. */
  readonly general: ReadonlySet<string>;
  /** Calls that an agent served. */
  readonly servedByAgent: number;
}

export async function resultOf(recording: Recording, { kind, differences: lists, general, hasAgent }: Runner): Promise<Result> {
  const listed = lists[`${recording.suite}/${recording.name}`];
  const played = await replay(recording, kind, hasAgent);
  const differences = played.differencesFrom(recording);
  const { expect = {}, races = {} } = listed !== undefined && "expect" in listed ? listed : {};
  const own = classify(differences, expect, general, races);
  if (listed === undefined || !("instead" in listed)) {
    return {
      problems: [...own.unexpected.map(describeDifference), ...own.stale.map((path) => `listed as different, but equal: ${path}`)],
      expected: differences.filter((difference) => !own.unexpected.includes(difference)).map(describeDifference),
      general: own.general,
      servedByAgent: played.servedByAgent,
    };
  }
  const wanted = classify(played.differencesFrom(otherOutcome(listed.instead.of, listed.instead.replace ?? {})), {}, general);
  const stale = own.unexpected.length > 0 ? [] : ["listed as different, but equal to its own recording"];
  return {
    problems: [...wanted.unexpected.map((each) => `(${listed.instead.of} is the outcome wanted) ${describeDifference(each)}`), ...stale],
    expected: differences.map(describeDifference),
    general: new Set([...own.general, ...wanted.general]),
    servedByAgent: played.servedByAgent,
  };
}

/** @param name "suite/name" */
function otherOutcome(name: string, replace: Readonly<Record<string, string>>): Recording {
  const [suite, scenario] = suiteOf(name);
  const text = Object.entries(replace).reduce((result, [from, to]) => result.replaceAll(from, to), recordingText(suite, scenario));
  return readRecording(suite, scenario, text);
}
