/** Nothing is removed on one look (design, invariant 14): what was seen, and since when without a gap. */
import type { Clock } from "../../lib/system/clock.ts";

/** Between the first look and the one that counts (A§8.1). */
export const LEAST_BETWEEN_MS = 60_000;

export class Observations {
  readonly #clock: Pick<Clock, "now">;
  #firstSeen = new Map<string, number>();
  #seenNow = new Map<string, number>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** @returns whether it was seen first so long ago, and at every look since */
  see(key: string, sinceMs = LEAST_BETWEEN_MS): boolean {
    const now = this.#clock.now();
    const first = this.#firstSeen.get(key) ?? now;
    this.#seenNow.set(key, first);
    return now - first >= sinceMs;
  }

  /** A look has ended: what was not seen in it counts as never seen. */
  endLook(): void {
    this.#firstSeen = this.#seenNow;
    this.#seenNow = new Map();
  }

  /** A look that failed says nothing, and what was seen before has to be seen anew. */
  forget(): void {
    this.#firstSeen.clear();
    this.#seenNow.clear();
  }
}
