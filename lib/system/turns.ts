/** Waiting for the event loop, so that what was begun on a socket is on its way before work that blocks the thread. */

/** The loop goes round so many times. */
export async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left--) await new Promise<void>((resolve) => setImmediate(resolve));
}
