/** Time and chance as parameters, so that what waits in the agent can be tested without waiting. */

export interface Clock {
  /** Milliseconds on a clock that never jumps. */
  now(): number;
  /** The time of day. */
  date(): Date;
  /** Ends early, without an error, when the signal is aborted. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
  /** In [0, 1). */
  random(): number;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  date: () => new Date(),
  random: () => Math.random(),
  sleep(milliseconds, signal) {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      signal?.addEventListener("abort", done);
    });
  },
};

/** What grows between repetitions: min(base × 2^(n−1), longest) ± 20 %, for the n-th failure in a row (A§1.3, A§6.1). */
export interface BackOff {
  readonly base: number;
  readonly longest: number;
}

/** @param failures in a row, at least 1 */
export function pauseAfter(failures: number, { base, longest }: BackOff, clock: Pick<Clock, "random">): number {
  // Beyond 2^30 the cap counts anyway, and 2^1024 is no number.
  const pause = Math.min(base * 2 ** Math.min(failures - 1, 30), longest);
  return jittered(pause, clock);
}

/** ± 20 %, by chance. */
export function jittered(milliseconds: number, clock: Pick<Clock, "random">): number {
  return milliseconds * (0.8 + clock.random() * 0.4);
}
