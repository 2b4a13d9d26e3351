/** Limits how often the files of a server's trust are read again after refusals: every request of a busy agent meets the same one. */
const BETWEEN_MS = 3_000;

export class TrustReads {
  #last = Number.NEGATIVE_INFINITY;

  /** Tells whether the files may be read now, and counts that as done. @param now of a clock that never jumps */
  isDue(now = performance.now()): boolean {
    if (now - this.#last < BETWEEN_MS) return false;
    this.#last = now;
    return true;
  }
}
