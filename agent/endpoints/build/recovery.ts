/**
 * Tries again what failed, for ever, with a growing pause: 1 s, doubled to at most 1 min (A§7.3, A§6.2). A success forgets the failures,
 * and the next failure is tried again as the first was.
 */
import type { Clock } from "../state/clock.ts";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

export class Recovery {
  readonly #clock: Clock;
  #failures = 0;
  #cancel: (() => void) | undefined;
  #isStopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** @param again is called once, after the pause, unless a success or the end comes first */
  failed(again: () => void): void {
    if (this.#isStopped) return;
    this.#cancel?.();
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, LONGEST_PAUSE_MS);
    this.#failures++;
    this.#cancel = this.#clock.after(pause, again);
  }

  succeeded(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#failures = 0;
  }

  stop(): void {
    this.#isStopped = true;
    this.succeeded();
  }
}
