/** Which free offset of a range the next grant tries (A§4.2). Pure: whether it is still free is for link(2) to say. */
import { type Bitmap, type Interval, intervalAt } from "./range.ts";

export const STRATEGIES = ["random", "contiguous", "next"] as const;
export type Strategy = (typeof STRATEGIES)[number];

/** What is known of a range at the moment of choosing. */
export interface Occupancy {
  readonly size: number;
  /** Granted, whoever the owner is. */
  readonly taken: Bitmap;
  /** Never given: of the node itself, or routed elsewhere (A§4.5). Takes no bit of `taken`. */
  readonly excluded: readonly Interval[];
  /** Released a short while ago, with the time of the release: given only when nothing else is free. */
  readonly cooling: ReadonlyMap<number, number>;
  /** The offset of the latest grant, for the strategy `next`. */
  readonly latest: number | undefined;
}

/**
 * @param random numbers in [0, 1)
 * @returns `undefined` when the range is full
 */
export function chooseOffset(range: Occupancy, strategy: Strategy, random: () => number): number | undefined {
  if (range.taken.count >= range.size) return undefined;
  const start = startOf(range, strategy, random);
  return firstFree(range, start, range.size) ?? firstFree(range, 0, start) ?? longestReleased(range);
}

function startOf({ size, latest }: Occupancy, strategy: Strategy, random: () => number): number {
  switch (strategy) {
    case "random":
      return Math.floor(random() * size);
    case "contiguous":
      return 0;
    case "next":
      return latest === undefined ? 0 : (latest + 1) % size;
  }
}

function firstFree({ taken, excluded, cooling }: Occupancy, from: number, end: number): number | undefined {
  for (let next = from; ; ) {
    const offset = taken.firstClear(next, end);
    if (offset === undefined) return undefined;
    const barred = intervalAt(excluded, offset);
    if (barred === undefined && !cooling.has(offset)) return offset;
    next = barred?.end ?? offset + 1;
  }
}

/** The one whose former owner has been gone for the longest time. */
function longestReleased({ taken, excluded, cooling }: Occupancy): number | undefined {
  let best: { readonly offset: number; readonly releasedMs: number } | undefined;
  for (const [offset, releasedMs] of cooling) {
    if (taken.has(offset) || intervalAt(excluded, offset) !== undefined) continue;
    if (best === undefined || releasedMs < best.releasedMs) best = { offset, releasedMs };
  }
  return best?.offset;
}
