/**
 * Cuts long work of one thread into slices, so that whatever else the process does waits for one slice and not for all of them. Counts time
 * and not pieces: work that ends within its first slice never pauses.
 */
import { nextTurn } from "./waiting.ts";

const SLICE_MS = 8;

export class Slices {
  readonly #now: () => number;
  #end: number;

  /** @param now milliseconds on a clock that never jumps */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#end = now() + SLICE_MS;
  }

  /** Tells whether the work has run long enough; `next()` then lets others run. Costs little, so it can be asked in a loop. */
  get isOver(): boolean {
    return this.#now() >= this.#end;
  }

  /** Lets others run, and begins the next slice. */
  async next(): Promise<void> {
    await nextTurn();
    this.#end = this.#now() + SLICE_MS;
  }
}
