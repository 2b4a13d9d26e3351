/**
 * Measures the longest time in which the event loop did not turn while a call was under way, by the runtime's own measurement. Only then: it wakes
 * the process every few milliseconds, which would be most of what an idle agent costs (0.27 s of processor a minute).
 */
import { monitorEventLoopDelay } from "node:perf_hooks";

/** A standstill is measured too short by at most this. */
const RESOLUTION_MS = 10;
/** The last standstill is noticed only after it. */
const LINGER_MS = 100;
const NANOSECONDS_A_MS = 1_000_000;

export class Standstill {
  readonly #monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #calls = 0;
  #end: NodeJS.Timeout | undefined;
  /** Up to the end of the last measurement: the runtime forgets it when the next one begins. */
  #before = 0;

  /** Milliseconds, since the start; 0 before the first call. */
  get longestMs(): number {
    return Math.max(this.#before, this.#monitor.max / NANOSECONDS_A_MS);
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    clearTimeout(this.#end);
    if (this.#calls++ === 0) this.#monitor.enable();
    try {
      return await work();
    } finally {
      if (--this.#calls === 0) this.#end = setTimeout(() => this.#rest(), LINGER_MS).unref();
    }
  }

  #rest(): void {
    this.#before = this.longestMs;
    this.#monitor.disable();
  }
}
