/**
 * What failed tries and pauses may cost all requests of a client together: an operation makes a dozen of them, and its caller does not wait
 * a dozen times. It comes back with time, so that a client that lives for months can bear more than one outage.
 */

/** Of the time that passes, so much comes back: an operation that only waits gets a quarter more than what there was. */
const REFILL = 0.2;

export class Patience {
  readonly #whole: number;
  #left: number;
  #at: number;

  /** @param whole milliseconds @param now of a clock that never jumps, as everywhere here */
  constructor(whole: number, now: number) {
    this.#whole = whole;
    this.#left = whole;
    this.#at = now;
  }

  /** Milliseconds; below zero when more was spent than there was. */
  left(now: number): number {
    this.#left = Math.min(this.#whole, this.#left + (now - this.#at) * REFILL);
    this.#at = now;
    return this.#left;
  }

  spend(milliseconds: number, now: number): void {
    // However many requests fail at one time, an outage is forgotten a limited time after its end.
    this.#left = Math.max(this.left(now) - milliseconds, -this.#whole);
  }
}
