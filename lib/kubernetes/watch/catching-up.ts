/**
 * Waits until a cache holds what the server has at this moment: reads the list once more, and compares the versions of its objects. A watch
 * alone does not say that nothing more is on the way: bookmarks come once a minute.
 */
import type { Clock } from "../../system/waiting.ts";
import type { Feed } from "./feed.ts";

/** What the cache knows, asked again and again. */
export interface Progress {
  /** Version of each object that the cache holds. */
  versions(): ReadonlyMap<string, string>;
  /** Everything up to this version has come; `undefined`: a list is needed. */
  reached(): string | undefined;
}

const LOOK_MS = 5;
/** An object that came and went behind the list leaves no trace: after so long the list is read again. */
const LIST_AGAIN_MS = 2_000;

/** @throws the signal's reason; what the feed throws */
export async function catchUp(
  feed: Pick<Feed<unknown>, "list">,
  progress: Progress,
  clock: Pick<Clock, "now" | "sleep">,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const listed = new Map<string, string>();
    const put = (key: string, version: string): void => void listed.set(key, version);
    const version = await feed.list({ put }, false, signal);
    const end = clock.now() + LIST_AGAIN_MS;
    while (clock.now() < end) {
      signal.throwIfAborted();
      if (isAtLeast(progress.reached(), version) || holds(progress.versions(), listed, version)) return;
      await clock.sleep(LOOK_MS, signal);
    }
  }
}

/** Says whether the cache has each listed object as it was then or later, and of others only those that are newer than the list. */
function holds(held: ReadonlyMap<string, string>, listed: ReadonlyMap<string, string>, version: string): boolean {
  for (const [key, wanted] of listed) if (!isAtLeast(held.get(key), wanted)) return false;
  for (const [key, found] of held) if (!listed.has(key) && !isNewer(found, version)) return false;
  return true;
}

/** Versions of API servers and of etcd are numbers that grow (KEP-5504); of others it is known only whether they are the same. */
function isAtLeast(found: string | undefined, wanted: string): boolean {
  return found === wanted || (found !== undefined && isNewer(found, wanted));
}

function isNewer(found: string, wanted: string): boolean {
  return NUMBER.test(found) && NUMBER.test(wanted) && BigInt(found) > BigInt(wanted);
}

const NUMBER = /^\d+$/;
