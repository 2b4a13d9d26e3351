/** Waiting for something with a limit, on a clock that tests have their own of. */
import type { Clock } from "../../lib/system/clock.ts";

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

export interface Limit {
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
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const stop = () => reject(ended.reason);
  ended.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work(ended), stopped]);
  } finally {
    ended.removeEventListener("abort", stop);
    done.abort();
  }
}

/** What the work throws; `undefined` when it succeeds. */
export async function failureOf(work: () => Promise<void>): Promise<unknown> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error ?? new Error("unknown failure");
  }
}
