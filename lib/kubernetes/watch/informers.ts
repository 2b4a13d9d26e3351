/** All watches of the agent on one connection: begun, reported and ended together. */

import { type Clock, SYSTEM_CLOCK } from "../../system/clock.ts";
import { statusError } from "../client/status-error.ts";
import type { ApiConnection } from "./connection.ts";
import type { CacheState, ResourceCache } from "./resource-cache.ts";
import { ResourceWatcher, type Selection, WatchError, type WatchSource } from "./resource-watcher.ts";

/** A list of ten thousand blocks takes longer than one object. */
const LIST_LIMIT_MS = 60_000;
/** Of a refusal; a Status object has some hundred bytes. */
const MOST_OF_A_REFUSAL = 4096;

export interface InformersOptions {
  readonly clock?: Clock;
  /** Told of what cannot be read, and of each failure to list or watch. */
  readonly onProblem?: (message: string) => void;
}

export class Informers {
  readonly #source: WatchSource;
  readonly #clock: Clock;
  readonly #onProblem: (message: string) => void;
  readonly #watchers: Pick<ResourceWatcher<unknown>, "state" | "reconnect" | "stop">[] = [];

  constructor(connection: ApiConnection, { clock = SYSTEM_CLOCK, onProblem = () => {} }: InformersOptions = {}) {
    this.#source = connectionSource(connection);
    this.#clock = clock;
    this.#onProblem = onProblem;
  }

  /** Begins to list and watch; the cache is empty until `untilSynced`. */
  watch<T>(selection: Selection<T>): ResourceCache<T> {
    const watcher = new ResourceWatcher(selection, this.#source, {
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

function connectionSource(connection: ApiConnection): WatchSource {
  return {
    async list(path) {
      const answer = await connection.exchange({ method: "GET", path }, LIST_LIMIT_MS);
      if (answer.status === 200) return answer.body;
      throw statusError(`list ${connection.server}${path}`, { ...answer, body: connection.redact(answer.body) }, false);
    },
    async watch(path, signal) {
      const response = await connection.stream(path, signal);
      if (response.status === 200 && response.body !== null) return response.body;
      const body = connection.redact((await response.text()).slice(0, MOST_OF_A_REFUSAL));
      const refusal = { status: response.status, contentType: response.headers.get("content-type") ?? "", retryAfter: "", body };
      throw response.status === 200
        ? new WatchError("the server answered a watch without a body", 200)
        : statusError(`watch ${connection.server}${path}`, refusal, false);
    },
  };
}
