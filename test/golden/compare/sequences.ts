/**
 * Sequence numbers of blocks (I§2.4) as "T1+2": the first creation of the block that was seen, and how many writes behind the least
 * number of it that was seen. Numbers that a scenario set stay as they are.
 */
import { type Json, type JsonRecord, recordOf, textOf } from "./json.ts";
import type { Observation } from "./observation.ts";

/** A sequence number of this size is a clock's (nanoseconds since 1970); smaller ones were set by somebody. */
const CLOCK = { from: 1_600_000_000_000_000_000n, to: 2_500_000_000_000_000_000n };
/** Numbers of one block this near to each other come from one creation of it. */
const SAME_CREATION = 100_000n;

/** A literal number, or one of a clock: which clock, when only a token names it, and the number itself or its offset. */
export type Sequence = string | { readonly token: string | undefined; readonly number: bigint };
export type ReadSequence = (value: Json, step: Observation) => Sequence;

/** "T1+3" (ipam), or a small number, relative to the first one seen (main). */
export function readRecordedSequence(value: Json, step: Observation): Sequence {
  const [, token, offset] = /^(T\d+)\+(-?\d+)$/.exec(textOf(value)) ?? [];
  if (offset !== undefined) return { token, number: BigInt(offset) };
  return step.kernel === undefined ? readPlayedSequence(value) : { token: "first", number: BigInt(String(value)) };
}

export function readPlayedSequence(value: Json): Sequence {
  const number = BigInt(String(value));
  return number > CLOCK.from && number < CLOCK.to ? { token: undefined, number } : String(value);
}

interface Creation {
  readonly token: string | undefined;
  least: bigint;
}

export function nameSequences(steps: readonly Observation[], read: ReadSequence): Observation[] {
  const creations = new Map<string, Creation[]>();
  const find = (cidr: string, { token, number }: Exclude<Sequence, string>) =>
    creations
      .get(cidr)
      ?.findIndex((known) =>
        token === undefined ? known.token === undefined && distance(known.least, number) < SAME_CREATION : known.token === token,
      ) ?? -1;
  const learn = (cidr: string, sequence: Sequence) => {
    if (typeof sequence === "string") return;
    const known = creations.get(cidr)?.[find(cidr, sequence)];
    if (known === undefined) creations.set(cidr, [...(creations.get(cidr) ?? []), { token: sequence.token, least: sequence.number }]);
    else if (sequence.number < known.least) known.least = sequence.number;
  };
  const name = (cidr: string, sequence: Sequence) => {
    if (typeof sequence === "string") return sequence;
    const index = find(cidr, sequence);
    return `T${index + 1}+${sequence.number - (creations.get(cidr)?.[index]?.least ?? 0n)}`;
  };
  for (const step of steps) {
    for (const [cidr, block] of Object.entries(blocksOf(step)))
      for (const value of sequencesOf(recordOf(block))) learn(cidr, read(value, step));
  }
  return steps.map((step) => mapBlocks(step, (block, cidr) => renumber(block, (value) => name(cidr, read(value, step)))));
}

/** An observation with each of its blocks changed. */
export function mapBlocks(step: Observation, change: (block: JsonRecord, cidr: string) => JsonRecord): Observation {
  const blocks = Object.entries(blocksOf(step)).map(([cidr, block]) => [cidr, change(recordOf(block), cidr)] as const);
  return { ...step, objects: { ...recordOf(step.objects), blocks: Object.fromEntries(blocks) } };
}

function blocksOf(step: Observation): JsonRecord {
  return recordOf(recordOf(step.objects).blocks);
}

function sequencesOf(block: JsonRecord): Json[] {
  return [block.sequenceNumber ?? 0, ...Object.values(recordOf(block.sequenceNumberForAllocation))];
}

function renumber(block: JsonRecord, name: (value: Json) => string): JsonRecord {
  const allocations = Object.entries(recordOf(block.sequenceNumberForAllocation)).map(
    ([ordinal, value]) => [ordinal, name(value)] as const,
  );
  return { ...block, sequenceNumber: name(block.sequenceNumber ?? 0), sequenceNumberForAllocation: Object.fromEntries(allocations) };
}

function distance(a: bigint, b: bigint): bigint {
  return a > b ? a - b : b - a;
}
