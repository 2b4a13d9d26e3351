/** The limit of requests a second: `burst` at once, then `qps` on average (C§1.4). */

export class TokenBucket {
  readonly #perMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** @param qps 0 and below: no limit */
  constructor(qps: number, burst: number, now: number) {
    this.#perMs = qps / 1000;
    this.#burst = Math.max(burst, 1);
    this.#tokens = this.#burst;
    this.#at = now;
  }

  /** Takes one token, on credit if there is none. @returns milliseconds to wait before using it */
  take(now: number): number {
    if (this.#perMs <= 0) return 0;
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) * this.#perMs) - 1;
    this.#at = now;
    return this.#tokens >= 0 ? 0 : -this.#tokens / this.#perMs;
  }
}
