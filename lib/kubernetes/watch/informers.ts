/** The watches of one server, and those of an API server. */
import { type Clock, SYSTEM_CLOCK } from "../../system/clock.ts";
import { statusError } from "../client/answers.ts";
import type { ApiConnection } from "../client/connection.ts";
import { type Feed, WatchError } from "./feed.ts";
import { KubernetesFeed, type Selection, type WatchSource } from "./kubernetes-feed.ts";
import type { CacheState, ResourceCache } from "./resource-cache.ts";
import { ResourceWatcher } from "./resource-watcher.ts";

/** A list of ten thousand blocks takes longer than one object. */
const LIST_LIMIT_MS = 60_000;
/** Of a refusal; a Status object has some hundred bytes. */
const MOST_OF_A_REFUSAL = 4096;

export interface WatchesOptions {
  readonly clock?: Clock;
  /** Gets a message about what cannot be read, and about each failure to list or watch. */
  readonly onProblem?: (message: string) => void;
}

/** Watches of one server: begun, reported and ended together. */
export class Watches implements AsyncDisposable {
  protected readonly clock: Clock;
  readonly #onProblem: (message: string) => void;
  readonly #watchers: Pick<ResourceWatcher<unknown>, "state" | "reconnect" | "stop">[] = [];

  constructor({ clock = SYSTEM_CLOCK, onProblem = () => {} }: WatchesOptions = {}) {
    this.clock = clock;
    this.#onProblem = onProblem;
  }

  /** Begins to list and watch; the cache is empty until `untilSynced`. */
  begin<T>(feed: Feed<T>): ResourceCache<T> {
    const watcher = new ResourceWatcher(feed, {
      clock: this.clock,
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

/** Watches of an API server, all over one connection. */
export class Informers extends Watches {
  readonly #source: WatchSource;

  constructor(connection: ApiConnection, options: WatchesOptions = {}) {
    super(options);
    this.#source = connectionSource(connection);
  }

  /** As `begin`, of a selection of the server's objects. */
  watch<T>(selection: Selection<T>): ResourceCache<T> {
    return this.begin(new KubernetesFeed(selection, this.#source, this.clock));
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
