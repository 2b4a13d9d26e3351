/**
 * Remembers since when a condition has been seen at every look: nothing is removed on one look (design, invariant 14). A look that failed or
 * was cut short says nothing.
 */
import type { Clock } from "../system/waiting.ts";

interface Observation {
  readonly since: number;
  readonly looks: number;
}

export class Observations {
  readonly #clock: Pick<Clock, "now">;
  /** What the last whole look has seen. */
  #seen = new Map<string, Observation>();
  /** What the present one has seen so far. */
  #seenNow = new Map<string, Observation>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** Makes one whole look. @param keys each the same at two looks for the same condition only */
  look(keys: Iterable<string>): void {
    for (const key of keys) this.see(key, 0);
    this.endLook();
  }

  /** Sees one condition in the present look. @returns whether it was seen first so long ago, and at every look since */
  see(key: string, graceMs: number): boolean {
    const now = this.#clock.now();
    const before = this.#seen.get(key);
    this.#seenNow.set(key, { since: before?.since ?? now, looks: (before?.looks ?? 0) + 1 });
    return before !== undefined && now - before.since >= graceMs;
  }

  /** Ends the present look: what it has not seen counts as never seen. */
  endLook(): void {
    this.#seen = this.#seenNow;
    this.#seenNow = new Map();
  }

  /** Tells whether whole looks have seen it twice at least, the first time so long ago. */
  isConfirmed(key: string, graceMs: number): boolean {
    const seen = this.#seen.get(key);
    return seen !== undefined && seen.looks >= 2 && this.#clock.now() - seen.since >= graceMs;
  }

  /** Forgets what may have come and gone while no changes were heard: what was seen before `followedSince` begins again. */
  forgetBefore(followedSince: number): void {
    for (const [key, { since }] of this.#seen) if (since < followedSince) this.#seen.delete(key);
  }

  forget(): void {
    this.#seen.clear();
    this.#seenNow.clear();
  }

  get size(): number {
    return this.#seen.size;
  }
}
