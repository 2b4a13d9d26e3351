/** Two plays of one call compared: every difference with the path of the place, as deep as both sides go. */

import { areEquivalent } from "./equivalent-messages.ts";
import { isList, isRecord, type Json, type JsonRecord, listOf, textOf } from "./json.ts";

export interface Difference {
  /** "call 0", "objects", "blocks", "10.40.0.0/26", "affinity". */
  readonly path: readonly string[];
  /** `undefined`: only we have something there. */
  readonly recorded: Json | undefined;
  /** `undefined`: only the recording has something there. */
  readonly ours: Json | undefined;
}

/** Every difference between the observations of one scenario, in order; empty when they are equal. */
export function compareObservations(recorded: readonly JsonRecord[], ours: readonly JsonRecord[]): Difference[] {
  const calls = Math.max(recorded.length, ours.length);
  return Array.from({ length: calls }, (_, index) => compare([`call ${index}`], recorded[index], ours[index])).flat();
}

function compare(path: readonly string[], recorded: Json | undefined, ours: Json | undefined): Difference[] {
  if (recorded === ours) return [];
  if (path.length === 2 && path[1] === "stdout" && isRecord(recorded) && isRecord(ours)) return compareOutput(path, recorded, ours);
  if (path.length === 2 && path[1] === "error" && isRecord(recorded) && isRecord(ours)) return compareErrors(path, recorded, ours);
  if (path.length === 2 && path[1] === "requests") return compareRequests(path, recorded, ours);
  if (isRecord(recorded) && isRecord(ours)) return compareMembers(path, recorded, ours);
  if (isList(recorded) && isList(ours)) {
    const length = Math.max(recorded.length, ours.length);
    return Array.from({ length }, (_, index) => compare([...path, String(index)], recorded[index], ours[index])).flat();
  }
  return [{ path, recorded, ours }];
}

function compareMembers(path: readonly string[], recorded: JsonRecord, ours: JsonRecord): Difference[] {
  const keys = [...new Set([...Object.keys(recorded), ...Object.keys(ours)])];
  return keys.flatMap((key) => compare([...path, key], recorded[key], ours[key]));
}

/** The value of a result first; the text itself only when the values are equal, for indentation and the order of keys. */
function compareOutput(path: readonly string[], recorded: JsonRecord, ours: JsonRecord): Difference[] {
  const values = compare([...path, "value"], recorded.value, ours.value);
  return values.length > 0 ? values : compare([...path, "text"], recorded.text, ours.text);
}

/** Fewer requests than Calico's are no difference, whichever they are. */
function compareRequests(path: readonly string[], recorded: Json | undefined, ours: Json | undefined): Difference[] {
  return listOf(ours).length > listOf(recorded).length ? [{ path, recorded, ours }] : [];
}

/** Codes exactly, texts by what they say; our `details` may hold more than Calico's, never less (C§10: facts, then word and next step). */
function compareErrors(path: readonly string[], recorded: JsonRecord, ours: JsonRecord): Difference[] {
  const { msg, details, ...rest } = recorded;
  const { msg: ourMsg, details: ourDetails, ...ourRest } = ours;
  const sameMsg = areEquivalent(textOf(msg), textOf(ourMsg));
  const sameDetails = details === undefined || areEquivalent(textOf(details), textOf(ourDetails));
  return [
    ...compareMembers(path, rest, ourRest),
    ...(sameMsg ? [] : [{ path: [...path, "msg"], recorded: msg, ours: ourMsg }]),
    ...(sameDetails ? [] : [{ path: [...path, "details"], recorded: details, ours: ourDetails }]),
  ];
}
