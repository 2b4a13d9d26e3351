/** How often and how fast a compare-and-swap that lost is tried again. */
import { TortieError } from "../../lib/errors/errors.ts";
import type { Context } from "./context.ts";

/** The bound that Calico has everywhere (I§5.1). */
const MOST_TRIES = 100;
/** A loser tries again at once; from here on it steps aside, so that many losers do not collide for ever. */
const IMMEDIATE_TRIES = 2;
const LONGEST_PAUSE_MS = 50;

/** What one try came to: a result, or the word that another try may have more luck. */
export type Try<T> = { readonly result: T } | typeof AGAIN;
export const AGAIN = "again";

/**
 * Runs `attempt` until it has a result. Safe to repeat because an attempt that says AGAIN has written nothing, or has undone it.
 * @param what the object, for the message
 * @throws TortieError `datastore-contention` after 100 tries; the signal's reason when it is aborted between two tries
 */
export async function retry<T>(
  context: Context,
  signal: AbortSignal | undefined,
  what: string,
  attempt: () => Promise<Try<T>>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    signal?.throwIfAborted();
    const outcome = await attempt();
    if (outcome !== AGAIN) return outcome.result;
    if (tries === MOST_TRIES) {
      throw new TortieError("datastore-contention", `Max retries hit - excessive concurrent IPAM requests (${what}, ${MOST_TRIES} tries)`);
    }
    if (tries >= IMMEDIATE_TRIES) await context.sleep(pauseBefore(tries, context.random), signal);
  }
}

/** A random share of a time that doubles, in milliseconds. */
function pauseBefore(tries: number, random: () => number): number {
  return random() * Math.min(2 ** (tries - IMMEDIATE_TRIES), LONGEST_PAUSE_MS);
}

/** A timer that an abort ends early; the next try then throws the signal's reason. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", done);
  });
}
