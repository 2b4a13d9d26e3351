/**
 * Keeps one cache in step with the API server for as long as the agent lives: a list, then a watch from that list's version; a watch
 * that ends is continued where it ended, and where the server no longer knows that version (410) the list is read anew. A failure
 * never empties the cache: it only becomes old, and says so.
 */
import { messageOf } from "../../errors/errors.ts";
import { type Fields, objects, section, text } from "../../json/decode.ts";
import { type BackOff, type Clock, pauseAfter } from "../../system/clock.ts";
import { systemErrorCode } from "../../system/errno.ts";
import { type CacheChange, type CacheState, MOST_LOST_MS, type ResourceCache, ResourceStore } from "./resource-cache.ts";
import { watchEvents } from "./watch-events.ts";

/** Objects a page of a list. */
const PAGE = 500;
const GONE = 410;
const BACK_OFF: BackOff = { base: 200, longest: 10_000 };
/** A watch that lived for less counts as a failure, so that a server that ends them at once is not asked in a loop. */
const LEAST_LIFE_MS = 1_000;
/** How long the server is asked to keep a watch: between this and twice this, so that restarted servers are not met by all at once. */
const WATCH_SECONDS = 300;

/** Which objects, and what is kept of them. */
export interface Selection<T> {
  /** For messages: "pods of node a". */
  readonly name: string;
  /** Path of the collection: "/api/v1/pods". */
  readonly path: string;
  readonly fieldSelector?: string | undefined;
  readonly labelSelector?: string | undefined;
  /** Text of a list or an event before it is parsed, for numbers that JSON.parse would round. */
  readonly prepare?: ((json: string) => string) | undefined;
  /** @throws Error when the object cannot be read: it is left out and reported */
  readonly decode: (object: Fields) => T;
  /** The watch is asked for anew this often, as proof that the server can be reached. */
  readonly heartbeatSeconds?: number | undefined;
}

/** How the server is asked: by an `ApiConnection`, or by a test. Both are rejected with an error whose `status` is the HTTP status. */
export interface WatchSource {
  /** @param target path and query @returns text of the answer */
  list(target: string, signal: AbortSignal): Promise<string>;
  watch(target: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

export interface WatcherOptions {
  readonly clock: Clock;
  /** Told of what cannot be read, and of each failure to list or watch. */
  readonly onProblem: (message: string) => void;
  /** A heartbeat failed: connections that look alive may be dead. */
  readonly onSilence?: () => void;
}

export class ResourceWatcher<T> implements ResourceCache<T> {
  readonly #selection: Selection<T>;
  readonly #source: WatchSource;
  readonly #options: WatcherOptions;
  readonly #store: ResourceStore<T>;
  readonly #stopping = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  /** Of the watch under way. */
  #following: AbortController | undefined;
  #running: Promise<void> | undefined;
  /** Where the next watch begins; `undefined`: a list is needed. */
  #version: string | undefined;
  #isSynced = false;
  #lostSince: number | undefined;
  #followedSince: number | undefined;
  #problem: string | undefined;

  constructor(selection: Selection<T>, source: WatchSource, options: WatcherOptions) {
    this.#selection = selection;
    this.#source = source;
    this.#options = options;
    this.#lostSince = options.clock.now();
    this.#store = new ResourceStore((error) => options.onProblem(`${selection.name}: a listener failed: ${messageOf(error)}`));
  }

  get state(): CacheState {
    return {
      name: this.#selection.name,
      isSynced: this.#isSynced,
      lostSince: this.#lostSince,
      followedSince: this.#followedSince,
      problem: this.#problem,
    };
  }

  get isUsable(): boolean {
    return this.#isSynced && (this.#lostSince === undefined || this.#options.clock.now() - this.#lostSince < MOST_LOST_MS);
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

  async untilSynced(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const aborted = Promise.withResolvers<void>();
    const abort = () => aborted.reject(signal?.reason);
    signal?.addEventListener("abort", abort);
    try {
      await Promise.race([this.#synced.promise, aborted.promise]);
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** The watch under way is given up, and asked for again where it was. */
  reconnect(): void {
    this.#following?.abort("reconnect");
  }

  async stop(): Promise<void> {
    this.#stopping.abort("stopped");
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stopping;
    for (let failures = 0; !signal.aborted; ) {
      const began = clock.now();
      let wasFollowed = false;
      try {
        this.#version ??= await this.#readList(signal);
        await this.#follow(() => {
          wasFollowed = true;
        });
      } catch (error) {
        if (signal.aborted) break;
        this.#noteFailure(error, wasFollowed);
      }
      this.#lostSince ??= clock.now();
      this.#followedSince = undefined;
      failures = wasFollowed && clock.now() - began >= LEAST_LIFE_MS ? 0 : failures + 1;
      if (failures > 0) await clock.sleep(pauseAfter(failures, BACK_OFF, clock), signal);
    }
  }

  #noteFailure(error: unknown, wasFollowed: boolean): void {
    if (statusOf(error) === GONE) {
      this.#version = undefined;
      return;
    }
    const isBroken = wasFollowed && !(error instanceof WatchError);
    const problem = isBroken ? `the watch broke off (${systemErrorCode(error) ?? messageOf(error)})` : messageOf(error);
    if (problem !== this.#problem) this.#options.onProblem(`${this.#selection.name}: ${problem}`);
    this.#problem = problem;
    const isSilent = !wasFollowed && statusOf(error) === 0;
    if (isSilent && this.#selection.heartbeatSeconds !== undefined) this.#options.onSilence?.();
  }

  /** @returns the version to watch from */
  async #readList(signal: AbortSignal): Promise<string> {
    const { prepare = asItIs } = this.#selection;
    const keys = new Set<string>();
    // The first list may come from the server's memory at once. A later one must not be older than what was seen already.
    const begin = this.#isSynced ? `limit=${PAGE}` : "resourceVersion=0";
    for (let next = ""; ; ) {
      const query = this.#query(next === "" ? [begin] : [begin, `continue=${encodeURIComponent(next)}`]);
      const page = parsePage(prepare(await this.#source.list(query, signal)));
      for (const item of page.items) keys.add(this.#put(item));
      next = page.next;
      if (next !== "") continue;
      this.#store.keepOnly(keys);
      this.#isSynced = true;
      this.#synced.resolve();
      return page.version;
    }
  }

  /** Ends when the server ends the watch. */
  async #follow(onBegin: () => void): Promise<void> {
    const { prepare = asItIs } = this.#selection;
    this.#following = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#following.signal]);
    const query = ["watch=true", "allowWatchBookmarks=true", `timeoutSeconds=${this.#watchSeconds()}`, `resourceVersion=${this.#version}`];
    const body = await this.#source.watch(this.#query(query), signal);
    onBegin();
    this.#lostSince = undefined;
    this.#followedSince = this.#options.clock.now();
    this.#problem = undefined;
    for await (const event of watchEvents(body, prepare)) {
      if (event.type === "ERROR") throw new WatchError(event.message, event.code);
      if (event.type === "BOOKMARK") {
        this.#version = event.resourceVersion;
        continue;
      }
      if (event.type === "DELETED") this.#store.delete(keyOf(event.object));
      else this.#put(event.object);
      this.#version = text(section(event.object, "metadata"), "resourceVersion");
    }
  }

  #watchSeconds(): number {
    return this.#selection.heartbeatSeconds ?? Math.round(WATCH_SECONDS * (1 + this.#options.clock.random()));
  }

  /** @returns the object's key */
  #put(object: Fields): string {
    const key = keyOf(object);
    this.#store.set(key, text(section(object, "metadata"), "resourceVersion"), () => {
      try {
        return this.#selection.decode(object);
      } catch (error) {
        this.#options.onProblem(`${this.#selection.name}: ${key} cannot be read: ${messageOf(error)}`);
        return undefined;
      }
    });
    return key;
  }

  #query(parts: readonly string[]): string {
    const { path, fieldSelector = "", labelSelector = "" } = this.#selection;
    const fields = fieldSelector === "" ? [] : [`fieldSelector=${encodeURIComponent(fieldSelector)}`];
    const labels = labelSelector === "" ? [] : [`labelSelector=${encodeURIComponent(labelSelector)}`];
    return `${path}?${[...labels, ...fields, ...parts].join("&")}`;
  }
}

/** What the server said instead of events. */
export class WatchError extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.name = "WatchError";
    this.status = status;
  }
}

function statusOf(error: unknown): number {
  return error instanceof Error && "status" in error && typeof error.status === "number" ? error.status : 0;
}

function parsePage(json: string): { readonly items: readonly Fields[]; readonly next: string; readonly version: string } {
  const page: Fields = JSON.parse(json);
  const metadata = section(page, "metadata");
  return { items: objects(page, "items"), next: text(metadata, "continue"), version: text(metadata, "resourceVersion") };
}

function keyOf(object: Fields): string {
  const metadata = section(object, "metadata");
  const namespace = text(metadata, "namespace");
  return namespace === "" ? text(metadata, "name") : `${namespace}/${text(metadata, "name")}`;
}

function asItIs(json: string): string {
  return json;
}
