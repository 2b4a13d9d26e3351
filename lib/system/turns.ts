/** Waiting for the event loop, so that what was begun on a socket is on its way before work that blocks the thread. */

/** Works while `busy` is waited for: `work` begins when what was asked for is on its way, and must not throw. */
export async function meanwhile<T>(busy: Promise<T>, work: () => void): Promise<T> {
  // Met below.
  busy.catch(() => {});
  await turns(1);
  work();
  return busy;
}

/** The loop goes round so many times. */
export async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left--) await new Promise<void>((resolve) => setImmediate(resolve));
}
