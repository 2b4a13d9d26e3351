/**
 * Keeps caches in step with a server for as long as the agent lives: a list, then the changes from that list's version on; what ends is
 * continued where it ended, and where the server no longer knows that version the list is read again. A failure never empties a cache: it
 * only becomes old, and says so.
 */

import { messageOf } from "../../errors/errors.ts";
import { systemErrorCode } from "../../system/errno.ts";
import { type BackOff, type Clock, NEVER, pauseAfter, SYSTEM_CLOCK, untilAborted } from "../../system/waiting.ts";
import { statusError } from "../client/answers.ts";
import type { ApiConnection } from "../client/connection.ts";
import { catchUp } from "./catching-up.ts";
import { type Feed, GoneError, SilenceError, type Sink, WatchError } from "./feed.ts";
import { KubernetesFeed, type Selection, type WatchSource } from "./kubernetes-feed.ts";
import type { CacheState, ResourceCache } from "./resource-cache.ts";
import { type CacheChange, ResourceStore } from "./resource-cache.ts";

/** A list of ten thousand blocks takes longer than one object. */
const LIST_LIMIT_MS = 60_000;
/** Bytes that are read of a refusal; a Status object has some hundred bytes. */
const MOST_OF_A_REFUSAL = 4096;

export interface WatchesOptions {
  readonly clock?: Clock;
  /** Gets a message about what cannot be read, and when following fails, still fails after a long time, and works again. */
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

  constructor(connection: WatchedServer, options: WatchesOptions = {}) {
    super(options);
    this.#source = connectionSource(connection);
  }

  /** Does as `begin`, for a selection of the server's objects. */
  watch<T>(selection: Selection<T>): ResourceCache<T> {
    return this.begin(new KubernetesFeed(selection, this.#source, this.clock));
  }
}

/** What watches need of a connection. */
export type WatchedServer = Pick<ApiConnection, "server" | "exchange" | "stream" | "redact">;

function connectionSource(connection: WatchedServer): WatchSource {
  return {
    async list(path, _signal, accept) {
      const answer = await connection.exchange({ method: "GET", path, accept }, LIST_LIMIT_MS);
      if (answer.status === 200) return answer.body;
      throw statusError(`list ${connection.server}${path}`, { ...answer, body: connection.redact(answer.body) }, false);
    },
    async watch(path, signal, accept) {
      const response = await connection.stream({ path, accept }, signal);
      if (response.status === 200 && response.body !== null) return response.body;
      const body = connection.redact((await response.text()).slice(0, MOST_OF_A_REFUSAL));
      const refusal = { status: response.status, contentType: response.headers.get("content-type") ?? "", retryAfter: "", body };
      throw response.status === 200
        ? new WatchError("the server answered a watch without a body", 200)
        : statusError(`watch ${connection.server}${path}`, refusal, false);
    },
  };
}

const BACK_OFF: BackOff = { base: 200, longest: 10_000 };
/** A watch that lived for less counts as a failure, so that a server that ends them at once is not asked in a loop. */
const LEAST_LIFE_MS = 1_000;
/** How often a failure that lasts is reported again. */
const REMINDER_MS = 600_000;
/** A watch that the server has ended in order is followed again at once. A server that takes longer may have died between the two. */
const RENEWAL_MS = 2_000;

export interface WatcherOptions extends Required<WatchesOptions> {
  /** A heartbeat failed, or a watch was silent for too long: connections that look alive may be dead. */
  readonly onSilence?: () => void;
}

export class ResourceWatcher<T> implements ResourceCache<T> {
  readonly #feed: Feed<T>;
  readonly #options: WatcherOptions;
  readonly #store: ResourceStore<T>;
  readonly #stopping = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  /** Ends the watch under way. */
  #following: AbortController | undefined;
  #running: Promise<void> | undefined;
  /** Where following begins; `undefined`: a list is needed. */
  #version: string | undefined;
  #isSynced = false;
  #lostSince: number | undefined;
  /** When the last watches began that followed each other without a gap. */
  #followedSince: number | undefined;
  /** The last watch ended in order, and nothing has failed since. */
  #isRenewing = false;
  #problem: string | undefined;
  /** A failure that was reported, until a watch has lived long enough. */
  #outage: { readonly since: number; toldAt: number } | undefined;
  #begunAt = 0;

  constructor(feed: Feed<T>, options: WatcherOptions) {
    this.#feed = feed;
    this.#options = options;
    this.#lostSince = options.clock.now();
    this.#store = new ResourceStore((error) => options.onProblem(`${feed.name}: a listener failed: ${messageOf(error)}`));
  }

  get state(): CacheState {
    return {
      name: this.#feed.name,
      isSynced: this.#isSynced,
      lostSince: this.#lostSince,
      followedSince: this.#lostSince === undefined ? this.#followedSince : undefined,
      problem: this.#problem,
    };
  }

  get isUsable(): boolean {
    return this.#isSynced && !this.#isInterrupted;
  }

  get(key: string): T | undefined {
    return this.#store.get(key);
  }

  list(): readonly T[] {
    return this.#store.list();
  }

  onChange(listener: (change: CacheChange<T>) => void): () => void {
    return this.#store.onChange(listener);
  }

  async untilSynced(signal = NEVER): Promise<void> {
    signal.throwIfAborted();
    await untilAborted(this.#synced.promise, signal);
  }

  async caughtUp(signal: AbortSignal): Promise<void> {
    await this.untilSynced(signal);
    const progress = { versions: () => this.#store.versions(), reached: () => this.#version };
    await catchUp(this.#feed, progress, this.#options.clock, AbortSignal.any([signal, this.#stopping.signal]));
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Gives the watch under way up, and asks for it again where it was. */
  reconnect(): void {
    this.#following?.abort("reconnect");
  }

  async stop(): Promise<void> {
    this.#stopping.abort("stopped");
    await this.#running;
  }

  /** Changes do not come, and not because the watch is being renewed. */
  get #isInterrupted(): boolean {
    if (this.#lostSince === undefined) return false;
    return !this.#isRenewing || this.#options.clock.now() - this.#lostSince >= RENEWAL_MS;
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    for (let failures = 0; !signal.aborted; ) {
      const began = clock.now();
      let wasFollowed = false;
      let isInOrder = false;
      try {
        this.#version ??= await this.#readList(signal);
        await this.#follow(this.#version, () => {
          wasFollowed = true;
        });
        isInOrder = true;
      } catch (error) {
        if (signal.aborted) break;
        this.#noteFailure(error, wasFollowed);
      }
      this.#lostSince ??= clock.now();
      failures = wasFollowed && clock.now() - began >= LEAST_LIFE_MS ? 0 : failures + 1;
      this.#isRenewing = isInOrder && failures === 0;
      if (failures > 0) await clock.sleep(pauseAfter(failures, BACK_OFF, clock), signal);
    }
  }

  #noteFailure(error: unknown, wasFollowed: boolean): void {
    if (error instanceof GoneError) {
      this.#version = undefined;
      return;
    }
    const isBroken = wasFollowed && !(error instanceof WatchError);
    const problem = isBroken ? `the watch broke off (${systemErrorCode(error) ?? messageOf(error)})` : messageOf(error);
    this.#problem = problem;
    this.#reportFailure(problem);
    const isUnanswered = this.#feed.isHeartbeat && !wasFollowed && statusOf(error) === 0;
    if (isUnanswered || error instanceof SilenceError) this.#options.onSilence?.();
  }

  /** Reports changes of state: an outage of an hour has thousands of tries, whose messages differ. */
  #reportFailure(problem: string): void {
    const now = this.#options.clock.now();
    const { since, toldAt } = this.#outage ?? { since: now, toldAt: Number.NEGATIVE_INFINITY };
    if (now - toldAt < REMINDER_MS) return;
    const duration = now > since ? ` (for ${Math.round((now - since) / 1_000)} s now)` : "";
    this.#outage = { since, toldAt: now };
    this.#options.onProblem(`${this.#feed.name}: ${problem}${duration}`);
  }

  #reportEnd(): void {
    if (this.#outage === undefined || this.#options.clock.now() - this.#begunAt < LEAST_LIFE_MS) return;
    const seconds = Math.round((this.#begunAt - this.#outage.since) / 1_000);
    this.#outage = undefined;
    this.#options.onProblem(`${this.#feed.name}: followed again, after ${seconds} s`);
  }

  /** @returns the version to follow from */
  async #readList(signal: AbortSignal): Promise<string> {
    const keys = new Set<string>();
    const put: Sink<T>["put"] = (key, version, decode) => {
      keys.add(key);
      this.#put(key, version, decode);
    };
    // The first list may come from the server's memory at once. A later one must not be older than what was seen already.
    const version = await this.#feed.list({ put }, !this.#isSynced, signal);
    this.#store.keepOnly(keys);
    this.#isSynced = true;
    this.#synced.resolve();
    return version;
  }

  /** Ends when the server ends it. */
  async #follow(version: string, onBegin: () => void): Promise<void> {
    this.#following = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#following.signal]);
    const sink: Sink<T> = {
      put: (key, of, decode) => this.#put(key, of, decode),
      delete: (key) => this.#store.delete(key),
      reached: (reached) => {
        this.#version = reached;
        this.#reportEnd();
      },
    };
    const begun = () => {
      onBegin();
      if (this.#isInterrupted) this.#followedSince = undefined;
      this.#lostSince = undefined;
      this.#followedSince ??= this.#options.clock.now();
      this.#problem = undefined;
      this.#begunAt = this.#options.clock.now();
    };
    await this.#feed.follow(version, sink, begun, signal);
    this.#reportEnd();
  }

  #put(key: string, version: string, decode: () => T): void {
    this.#store.set(key, version, () => {
      try {
        return decode();
      } catch (error) {
        this.#options.onProblem(`${this.#feed.name}: ${key} cannot be read: ${messageOf(error)}`);
        return undefined;
      }
    });
  }
}

function statusOf(error: unknown): number {
  return error instanceof Error && "status" in error && typeof error.status === "number" ? error.status : 0;
}
