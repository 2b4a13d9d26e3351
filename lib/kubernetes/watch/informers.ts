/** All watches of the agent on one connection to the API server. */

import { SYSTEM_CLOCK } from "../../system/clock.ts";
import { statusError } from "../client/status-error.ts";
import type { ApiConnection } from "./connection.ts";
import { WatchError } from "./feed.ts";
import { KubernetesFeed, type Selection, type WatchSource } from "./kubernetes-feed.ts";
import type { CacheState, ResourceCache } from "./resource-cache.ts";
import { Watches, type WatchesOptions } from "./watches.ts";

/** A list of ten thousand blocks takes longer than one object. */
const LIST_LIMIT_MS = 60_000;
/** Of a refusal; a Status object has some hundred bytes. */
const MOST_OF_A_REFUSAL = 4096;

export class Informers implements AsyncDisposable {
  readonly #source: WatchSource;
  readonly #watches: Watches;
  readonly #clock: NonNullable<WatchesOptions["clock"]>;

  constructor(connection: ApiConnection, options: WatchesOptions = {}) {
    this.#source = connectionSource(connection);
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#watches = new Watches(options);
  }

  /** Begins to list and watch; the cache is empty until `untilSynced`. */
  watch<T>(selection: Selection<T>): ResourceCache<T> {
    return this.#watches.begin(new KubernetesFeed(selection, this.#source, this.#clock));
  }

  states(): readonly CacheState[] {
    return this.#watches.states();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#watches[Symbol.asyncDispose]();
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
