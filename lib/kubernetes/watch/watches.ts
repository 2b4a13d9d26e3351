/** Watches of one server: begun, reported and ended together. */
import { type Clock, SYSTEM_CLOCK } from "../../system/clock.ts";
import type { Feed } from "./feed.ts";
import type { CacheState, ResourceCache } from "./resource-cache.ts";
import { ResourceWatcher } from "./resource-watcher.ts";

export interface WatchesOptions {
  readonly clock?: Clock;
  /** Told of what cannot be read, and of each failure to list or watch. */
  readonly onProblem?: (message: string) => void;
}

export class Watches implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #onProblem: (message: string) => void;
  readonly #watchers: Pick<ResourceWatcher<unknown>, "state" | "reconnect" | "stop">[] = [];

  constructor({ clock = SYSTEM_CLOCK, onProblem = () => {} }: WatchesOptions = {}) {
    this.#clock = clock;
    this.#onProblem = onProblem;
  }

  /** Begins to list and watch; the cache is empty until `untilSynced`. */
  begin<T>(feed: Feed<T>): ResourceCache<T> {
    const watcher = new ResourceWatcher(feed, {
      clock: this.#clock,
      onProblem: this.#onProblem,
      onSilence: () => this.#reconnectOthers(watcher),
    });
    this.#watchers.push(watcher);
    watcher.start();
    return watcher;
  }

  states(): readonly CacheState[] {
    return this.#watchers.map(({ state }) => state);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#watchers.splice(0).map((watcher) => watcher.stop()));
  }

  #reconnectOthers(silent: unknown): void {
    for (const watcher of this.#watchers) if (watcher !== silent) watcher.reconnect();
  }
}
