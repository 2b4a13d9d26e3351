/** Waits with a time limit or a signal. Takes time and chance as parameters, so that what waits can be tested without waiting. */

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

/** Adds or takes up to 20 %, by chance. */
export function jittered(milliseconds: number, clock: Pick<Clock, "random">): number {
  return milliseconds * (0.8 + clock.random() * 0.4);
}

/** A signal that nobody aborts. */
export const NEVER: AbortSignal = new AbortController().signal;

/** @returns whether `work` ended, well or not, within the limit */
export async function endsWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  const limit = new AbortController();
  const late = clock.sleep(limitMs, limit.signal).then(() => false);
  const ended = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([ended, late]);
  } finally {
    limit.abort();
  }
}

interface Limit {
  readonly limitMs: number;
  /** Thrown when the time is over. */
  readonly late: Error;
  /** Ends the wait before that, with its reason. */
  readonly signal: AbortSignal;
}

/** Waits for `work` no longer than the limit; its signal is aborted when the wait ends. @throws what ended the wait */
export async function withLimit<T>(clock: Clock, { limitMs, late, signal }: Limit, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const done = new AbortController();
  const overtime = new AbortController();
  void clock.sleep(limitMs, done.signal).then(() => {
    if (!done.signal.aborted) overtime.abort(late);
  });
  const ended = AbortSignal.any([signal, overtime.signal]);
  try {
    return await untilAborted(work(ended), ended);
  } finally {
    done.abort();
  }
}

/** Waits for an answer on the system's clock. The work itself goes on behind the limit. @throws `late` when the time is over */
export function inTime<T>(limitMs: number, late: Error, answer: Promise<T>): Promise<T> {
  return withLimit(SYSTEM_CLOCK, { limitMs, late, signal: NEVER }, () => answer);
}

/** Waits for `work` until the signal is aborted. The work itself goes on. @throws the signal's reason */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, stopped]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Lets whatever else waits in this process run first, and what the kernel has reported until now. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Sleeps on the system's clock. @throws the signal's reason when that ends the sleep */
export async function sleepUnless(signal: AbortSignal, milliseconds: number): Promise<void> {
  signal.throwIfAborted();
  await SYSTEM_CLOCK.sleep(milliseconds, signal);
  signal.throwIfAborted();
}

/** Gives what the work throws; `undefined` when it succeeds. */
export async function failureOf(work: () => Promise<void>): Promise<unknown> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error ?? new Error("unknown failure");
  }
}

/** Makes what is asked for when it is first asked for, and only then. */
export function once<T>(make: () => T): () => T {
  let made: { readonly result: T } | undefined;
  return () => {
    made ??= { result: make() };
    return made.result;
  };
}
