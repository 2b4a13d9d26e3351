/** Cuts intervals of ports and of addresses into the pieces that sets of exact keys can hold. Pure. */
import type { AddressInterval, AllowedPorts } from "../../packet-policy.ts";
import type { ClassSet } from "./layout.ts";

/** The sets of ports with the length of their pieces, the longest first. */
const PIECES = [
  ["ports4096", 4096],
  ["ports256", 256],
  ["ports16", 16],
  ["ports", 1],
] as const satisfies readonly (readonly [ClassSet, number])[];

/** Cuts an interval of ports into aligned pieces, as few as there can be; each is named by its first port. */
export function piecesOf({ first, last }: AllowedPorts): (readonly [set: ClassSet, port: number])[] {
  const result: (readonly [ClassSet, number])[] = [];
  for (let port = first; port <= last; ) {
    const [set, length] = PIECES.find(([, one]) => port % one === 0 && port + one - 1 <= last) ?? PIECES[3];
    result.push([set, port]);
    port += length;
  }
  return result;
}

const PREFIX_STEP = 4;
/** The shortest first: most packets that a block allows come from a large one, such as all but some of the internet. */
export const PREFIX_LENGTHS: readonly number[] = Array.from({ length: 128 / PREFIX_STEP }, (_, at) => PREFIX_STEP * (at + 1));

/** Cuts an interval of addresses into prefixes whose lengths are multiples of four bits, as few as there can be. */
export function prefixesOf({ family, first, last }: AddressInterval): { readonly length: number; readonly value: bigint }[] {
  const bits = family === 4 ? 32 : 128;
  const result: { length: number; value: bigint }[] = [];
  for (let value = first; value <= last; ) {
    let size = 1n;
    let length = bits;
    for (let larger = size << 4n; length > PREFIX_STEP && value % larger === 0n && value + larger - 1n <= last; larger <<= 4n) {
      size = larger;
      length -= PREFIX_STEP;
    }
    result.push({ length, value });
    value += size;
  }
  return result;
}
