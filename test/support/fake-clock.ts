/** A clock that moves only when a test says so. Sleepers wake in the order of their times, and what they begin runs before the next one wakes. */
import type { Clock } from "../../lib/system/waiting.ts";

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

export class FakeClock implements Clock {
  /** Every pause that was asked for, in order. */
  readonly pauses: number[] = [];
  #now = 0;
  #sleepers: Sleeper[] = [];
  readonly #random: () => number;

  /** @param random the middle of each range when absent, so that pauses have no jitter */
  constructor(random: () => number = () => 0.5) {
    this.#random = random;
  }

  now(): number {
    return this.#now;
  }

  /** Midnight of the first of January 2030, and what has passed since. */
  date(): Date {
    return new Date(Date.UTC(2030, 0, 1) + this.#now);
  }

  random(): number {
    return this.#random();
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    this.pauses.push(milliseconds);
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const sleeper = { at: this.#now + milliseconds, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener("abort", () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        resolve();
      });
    });
  }

  /** Lets time pass; every sleeper wakes at its own moment. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.#now + milliseconds;
    for (;;) {
      await settled();
      const next = this.#sleepers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      this.#now = Math.max(this.#now, next.at);
      next.wake();
    }
    this.#now = end;
    await settled();
  }
}

/** Runs everything that waits for nothing but promises. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}
