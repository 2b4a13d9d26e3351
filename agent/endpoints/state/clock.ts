/** Time as the endpoints see it; tests have their own. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls back once, later; keeps no process alive. @returns what cancels it */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** RFC 3339, UTC. */
export function timestamp(clock: Clock): string {
  return new Date(clock.now()).toISOString();
}

/** @returns whether `work` ended, well or not, within the limit */
export async function endsWithin(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  let cancel = () => {};
  const late = new Promise<false>((resolve) => {
    cancel = clock.after(ms, () => resolve(false));
  });
  const ended = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([ended, late]);
  } finally {
    cancel();
  }
}
