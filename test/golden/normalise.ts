/**
 * Volatile values become tokens that say where the value was first seen, so that the same value has the same token and two plays of
 * one scenario can be compared: MAC and link-local addresses, times, sequence numbers.
 */
import { isRecord, type Json, type JsonRecord, mapTexts, recordOf, textOf } from "./json.ts";
import type { Observation } from "./observation.ts";

/** How volatile values look on one side. */
interface Volatile {
  readonly pattern: RegExp;
  /** Whether a text that matches is volatile. */
  readonly isVolatile: (text: string) => boolean;
}

/** The recorder's own tokens: {{mac1}}, {{linklocal2}}, {{linklocal-other0}}. */
const RECORDED_ADDRESSES: Volatile = { pattern: /\{\{(?:mac|linklocal)[\w-]*\}\}/g, isVolatile: () => true };
const MAC_OR_LINK_LOCAL = /(?:[0-9a-f]{2}:){5}[0-9a-f]{2}|fe80::[0-9a-f]+(?::[0-9a-f]+)*/g;

/** A sequence number of this size is a clock's (I§2.4: nanoseconds since 1970); smaller ones were set by somebody. */
const CLOCK = { from: 1_600_000_000_000_000_000n, to: 2_500_000_000_000_000_000n };
/** Numbers of one block this near to each other come from one creation of it. */
const SAME_CLOCK = 100_000n;

/** @param recorded the observations of a recording, in order */
export function normaliseRecorded(recorded: readonly Observation[]): Observation[] {
  const steps = recorded.map((step) =>
    mapObservation(step, (text) => text.replace(/\{\{(?:affinityClaimTime|timestamp|time)\}\}/g, "{{time}}")),
  );
  return nameAddresses(nameSequences(steps, readRecordedSequence), RECORDED_ADDRESSES);
}

/**
 * @param played what our executables left, in order
 * @param literal text of the recording: an address that stands in it is not volatile
 * @param seeded texts that were put in place of the recording's tokens → the token
 */
export function normalisePlayed(played: readonly Observation[], literal: string, seeded: ReadonlyMap<string, string>): Observation[] {
  const steps = played.map((step) =>
    mapObservation(
      mapBlocks(step, (block) => timeTokens(block, seeded)),
      (text) => replaceAll(text, seeded),
    ),
  );
  const volatile = { pattern: MAC_OR_LINK_LOCAL, isVolatile: (text: string) => !literal.includes(text) };
  return nameAddresses(nameSequences(steps, readPlayedSequence), volatile);
}

function replaceAll(text: string, seeded: ReadonlyMap<string, string>): string {
  let result = text;
  for (const [value, token] of seeded) result = result.replaceAll(value, token);
  return result;
}

/** Times in the forms of I§2.4: claim and release in RFC 3339, the attribute as Go prints a UTC time. Another form stays as it is. */
function timeTokens(block: JsonRecord, seeded: ReadonlyMap<string, string>): JsonRecord {
  const rfc3339 = (time: Json | undefined) =>
    seeded.get(textOf(time)) ?? textOf(time).replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, "{{time}}");
  const attributes = Array.isArray(block.attributes) ? block.attributes.map(recordOf) : [];
  return {
    ...block,
    ...(block.claimed === undefined ? {} : { claimed: rfc3339(block.claimed) }),
    attributes: attributes.map((attribute) => ({
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

/** A sequence number: a literal one, or an offset from the clock's value at one creation of the block. */
type Sequence = string | { readonly clock: bigint | string; readonly offset: bigint };

/** "T1+3" (ipam), or a small number, relative to the first one seen (main); other numbers were set by the scenario and stand as they are. */
function readRecordedSequence(value: Json, isMain: boolean): Sequence {
  const token = /^(T\d+)\+(-?\d+)$/.exec(textOf(value));
  if (token !== null) return { clock: token[1] ?? "", offset: BigInt(token[2] ?? 0) };
  return isMain ? { clock: "T", offset: BigInt(String(value)) } : readPlayedSequence(value);
}

function readPlayedSequence(value: Json): Sequence {
  const number = BigInt(String(value));
  return number > CLOCK.from && number < CLOCK.to ? { clock: number, offset: 0n } : String(value);
}

/** "T1+0": the first clock seen for this block, and the least number of it that was seen. */
function nameSequences(steps: readonly Observation[], read: (value: Json, isMain: boolean) => Sequence): Observation[] {
  const clocks = new Map<string, { least: bigint; last: bigint | string }[]>();
  const sequenceOf = (cidr: string, value: Json, isMain: boolean) => {
    const sequence = read(value, isMain);
    if (typeof sequence === "string") return sequence;
    const known = clocks.get(cidr) ?? [];
    clocks.set(cidr, known);
    const { clock } = sequence;
    const number = typeof clock === "bigint" ? clock : sequence.offset;
    let index = known.findIndex(({ least, last }) => (typeof clock === "bigint" ? distance(clock, least) < SAME_CLOCK : last === clock));
    if (index < 0) index = known.push({ least: number, last: clock }) - 1;
    const group = known[index];
    if (group !== undefined && number < group.least) group.least = number;
    return { index, number };
  };
  const visit = (step: Observation, name: (cidr: string, value: Json, isMain: boolean) => Json) =>
    mapBlocks(step, (block, cidr) => ({
      ...block,
      sequenceNumber: name(cidr, block.sequenceNumber ?? 0, step.kernel !== undefined),
      sequenceNumberForAllocation: Object.fromEntries(
        Object.entries(recordOf(block.sequenceNumberForAllocation)).map(([ordinal, value]) => [
          ordinal,
          name(cidr, value, step.kernel !== undefined),
        ]),
      ),
    }));
  for (const step of steps) visit(step, (cidr, value, isMain) => (sequenceOf(cidr, value, isMain), null));
  return steps.map((step) =>
    visit(step, (cidr, value, isMain) => {
      const sequence = sequenceOf(cidr, value, isMain);
      return typeof sequence === "string"
        ? sequence
        : `T${sequence.index + 1}+${sequence.number - (clocks.get(cidr)?.[sequence.index]?.least ?? 0n)}`;
    }),
  );
}

function distance(a: bigint, b: bigint): bigint {
  return a > b ? a - b : b - a;
}

/** Names every volatile address after the place where it was first seen; kernel first, because there it has a link's name. */
function nameAddresses(steps: readonly Observation[], volatile: Volatile): Observation[] {
  const names = new Map<string, string>();
  const rename = (text: string, path: readonly string[]) =>
    text.replace(volatile.pattern, (found) => {
      if (!volatile.isVolatile(found)) return found;
      const known = names.get(found);
      if (known !== undefined) return known;
      const kind = /^fe80|linklocal/.test(found) ? "link-local" : "MAC";
      const place = [...path.slice(0, 4), ...(/^\w+ /.exec(text) ?? [])].join(" ").trim();
      const same = [...names.values()].filter((name) => name.startsWith(`{{${kind} of ${place}`)).length;
      const name = `{{${kind} of ${place}${same === 0 ? "" : ` (${same + 1})`}}}`;
      names.set(found, name);
      return name;
    });
  return steps.map((step, index) => {
    const call = `call ${index}`;
    const kernel = step.kernel === undefined ? {} : { kernel: mapTexts(nameLinks(step.kernel), rename, [call]) };
    const { kernel: _, ...rest } = step;
    const renamed = recordOf(mapTexts(rest, rename, [call]));
    return { ...renamed, ...kernel, exit: step.exit };
  });
}

/** The kernel's part with links before everything else, so that a MAC is named after its link. */
function nameLinks(kernel: Json): Json {
  const sides = Object.entries(recordOf(kernel)).map(([name, side]) => {
    if (!isRecord(side)) return [name, side] as const;
    const { links, addresses, ...rest } = side;
    return [name, { links: links ?? {}, addresses: addresses ?? {}, ...rest }] as const;
  });
  return Object.fromEntries(sides);
}

function mapObservation(step: Observation, change: (text: string) => string): Observation {
  const { exit, ...rest } = step;
  return { ...recordOf(mapTexts(rest, change)), exit };
}

function mapBlocks(step: Observation, change: (block: JsonRecord, cidr: string) => JsonRecord): Observation {
  const objects = recordOf(step.objects);
  const blocks = Object.entries(recordOf(objects.blocks)).map(([cidr, block]) => [cidr, change(recordOf(block), cidr)] as const);
  return { ...step, objects: { ...objects, blocks: Object.fromEntries(blocks) } };
}
