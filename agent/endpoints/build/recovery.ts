/**
 * Tries again what failed, for ever, with a growing pause: 1 s, doubled to at most 1 min (A§7.3, A§6.2). A success forgets the failures,
 * and the next failure is tried again as the first was.
 */
import { type Clock, pauseAfter } from "../../../lib/system/clock.ts";

const BACK_OFF = { base: 1000, longest: 60_000 };

export class Recovery {
  readonly #clock: Clock;
  #failures = 0;
  #pause: AbortController | undefined;
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
    this.#pause?.abort();
    this.#failures++;
    const pause = new AbortController();
    this.#pause = pause;
    void this.#clock.sleep(pauseAfter(this.#failures, BACK_OFF, this.#clock), pause.signal).then(() => {
      if (!pause.signal.aborted) again();
    });
  }

  succeeded(): void {
    this.#pause?.abort();
    this.#pause = undefined;
    this.#failures = 0;
  }

  stop(): void {
    this.#isStopped = true;
    this.succeeded();
  }
}
