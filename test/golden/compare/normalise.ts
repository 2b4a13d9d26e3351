/** Volatile values become tokens, the same on both sides, so that two plays of one scenario can be compared: times, addresses, numbers. */

import { withoutNextStep } from "./equivalent-messages.ts";
import { isRecord, type Json, type JsonRecord, listOf, mapTexts, recordOf, textOf } from "./json.ts";
import type { Observation } from "./observation.ts";
import { mapBlocks, nameSequences, readPlayedSequence, readRecordedSequence } from "./sequences.ts";
import { nameAddresses, playedAddresses, RECORDED_ADDRESSES } from "./volatile-addresses.ts";

/** @param recorded the observations of a recording, in order */
export function normaliseRecorded(recorded: readonly Observation[]): Observation[] {
  const steps = recorded.map((step) =>
    mapObservation(step, (text) => text.replace(/\{\{(?:affinityClaimTime|timestamp|time)\}\}/g, "{{time}}")),
  );
  return nameAddresses(nameSequences(steps, readRecordedSequence), RECORDED_ADDRESSES);
}

/**
 * @param played what our executables left, in order
 * @param recording text of the recording: an address that stands in it is not volatile
 * @param seeded texts that were put in place of the recording's tokens → the token
 */
export function normalisePlayed(played: readonly Observation[], recording: string, seeded: ReadonlyMap<string, string>): Observation[] {
  const steps = played.map((step) =>
    mapObservation(
      mapBlocks(withoutHint(step), (block) => timeTokens(block, seeded)),
      (text) => replaceAll(text, seeded),
    ),
  );
  return nameAddresses(nameSequences(steps, readPlayedSequence), playedAddresses(recording));
}

/** The error without the word and the next step that ours have behind their details (C§10). */
function withoutHint(step: Observation): Observation {
  if (!isRecord(step.error) || typeof step.error.details !== "string") return step;
  const { details, ...error } = step.error;
  const facts = withoutNextStep(textOf(details));
  return { ...step, error: facts === "" ? error : { ...error, details: facts } };
}

function replaceAll(text: string, seeded: ReadonlyMap<string, string>): string {
  return [...seeded].reduce((result, [value, token]) => result.replaceAll(value, token), text);
}

/** Times in the forms of I§2.4: claim and release in RFC 3339, the attribute as Go prints a UTC time. Another form stays as it is. */
function timeTokens(block: JsonRecord, seeded: ReadonlyMap<string, string>): JsonRecord {
  const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
  const rfc3339 = (time: Json) => seeded.get(textOf(time)) ?? textOf(time).replace(RFC_3339, "{{time}}");
  return {
    ...block,
    ...(block.claimed === undefined ? {} : { claimed: rfc3339(block.claimed) }),
    attributes: listOf(block.attributes)
      .map(recordOf)
      .map((attribute) => ({
        ...attribute,
        ...(attribute.releasedAt === undefined ? {} : { releasedAt: rfc3339(attribute.releasedAt) }),
        ...(isRecord(attribute.secondary) ? { secondary: goTime(attribute.secondary) } : {}),
        ...(isRecord(attribute.alternateOwnerAttrs) ? { alternateOwnerAttrs: goTime(attribute.alternateOwnerAttrs) } : {}),
      })),
  };
}

function goTime(attributes: JsonRecord): JsonRecord {
  if (attributes.timestamp === undefined) return attributes;
  const GO_UTC = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{0,8}[1-9])? \+0000 UTC$/;
  return { ...attributes, timestamp: textOf(attributes.timestamp).replace(GO_UTC, "{{time}}") };
}

function mapObservation({ exit, ...rest }: Observation, change: (text: string) => string): Observation {
  return { ...recordOf(mapTexts(rest, change)), exit };
}
