/**
 * Decides which number an identity has (P§1.5, P§1.13): reserved sets have theirs, any other set probes a sequence that follows from its
 * labels alone. Everybody probes in the same order, so that two creators of one set meet at one name, and the server's refusal of the
 * second creation settles it.
 */
import { createHash } from "node:crypto";
import type { Label } from "./labels.ts";

/** Numbers that need no object. 100-107 are unused, 128-255 are the user's, 256-65,535 are kept for numbers of other programs. */
export const RESERVED = { unknown: 0, host: 1, world: 2, unmanaged: 3, health: 4, init: 5, "remote-node": 6 } as const;

/** Numbers fit into 24 bits, as a VXLAN network identifier does. */
const FIRST = 65_536;
const COUNT = 16_711_680;
/** So many neighbours taken by others mean that almost every number is. */
export const CANDIDATES = 64;
/** Bytes of the digest that a number follows from: as many as a double holds exactly. */
const DIGEST_BYTES = 6;

const RESERVED_SOURCE = "reserved";

/**
 * Returns the number of a reserved set: one label of the source `reserved`; one that has `reserved:host` is the host whatever else it has.
 * @returns `undefined` for any other set
 */
export function reservedNumber(labels: readonly Label[]): number | undefined {
  const names = labels.filter(({ source }) => source === RESERVED_SOURCE).map(({ key }) => key);
  if (names.includes("host")) return RESERVED.host;
  const [only] = names;
  if (labels.length !== 1 || only === undefined) return undefined;
  return Object.entries(RESERVED).find(([name, number]) => name === only && number !== RESERVED.unknown)?.[1];
}

/** Lists the numbers that a set of labels may have, in the order in which they are tried. @param key of the set */
export function candidatesOf(key: string): readonly number[] {
  const begin = beginOf(key);
  return Array.from({ length: CANDIDATES }, (_, index) => FIRST + ((begin + index) % COUNT));
}

/** Says as which candidate the set would try the number. @returns infinity for a number that it would not try */
export function rankOf(key: string, number: number): number {
  if (number < FIRST) return Number.POSITIVE_INFINITY;
  const rank = (number - FIRST - beginOf(key) + COUNT) % COUNT;
  return rank < CANDIDATES ? rank : Number.POSITIVE_INFINITY;
}

function beginOf(key: string): number {
  return createHash("sha256").update(key).digest().readUIntBE(0, DIGEST_BYTES) % COUNT;
}
