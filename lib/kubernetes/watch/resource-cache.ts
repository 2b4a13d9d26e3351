/**
 * Shows consumers what a watch brings: the objects of one selection as the API server has them, and how far that can be relied on. Values
 * are what the consumer's `decode` makes of an object; they are replaced, never changed.
 */

export interface CacheChange<T> {
  /** "namespace/name", or "name" for what has no namespace. */
  readonly key: string;
  /** `undefined`: it is new. */
  readonly before: T | undefined;
  /** `undefined`: it is gone. */
  readonly after: T | undefined;
}

/** How far a cache can be relied on; times are those of a clock that never jumps, in milliseconds. */
export interface CacheState {
  /** For messages: "pods of node a". */
  readonly name: string;
  /** A complete list has been received. */
  readonly isSynced: boolean;
  /** Since when no changes come; `undefined` while they do. */
  readonly lostSince: number | undefined;
  /** Since when changes come, renewals in order included; `undefined` while they do not. */
  readonly followedSince: number | undefined;
  /** Why the last try to list or watch failed; `undefined` once one has succeeded. */
  readonly problem: string | undefined;
}

export interface ResourceCache<T> {
  readonly state: CacheState;
  /** It is synced and followed, or its watch is being renewed in order: what it says may be used instead of a request (A§11.7). */
  readonly isUsable: boolean;
  get(key: string): T | undefined;
  list(): readonly T[];
  /**
   * Calls `listener` after each change, whether it came by the watch or by a new list.
   *
   * @returns what ends it
   */
  onChange(listener: (change: CacheChange<T>) => void): () => void;
  /** Waits for the first complete list. @throws the signal's reason */
  untilSynced(signal?: AbortSignal): Promise<void>;
  /** Waits until everything is here that the server had when this was called: costs a list. @throws the signal's reason; Error */
  caughtUp(signal: AbortSignal): Promise<void>;
}

interface Entry<T> {
  /** `undefined`: the object cannot be read. */
  readonly value: T | undefined;
  readonly version: string;
}

/** Holds the objects and tells listeners about changes. `ResourceWatcher` fills it. */
export class ResourceStore<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #listeners = new Set<(change: CacheChange<T>) => void>();
  readonly #onError: (error: unknown) => void;

  /** @param onError gets what a listener throws */
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  get(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  list(): readonly T[] {
    return [...this.#entries.values()].map(({ value }) => value).filter((value) => value !== undefined);
  }

  /** Lists the versions of all objects, those that cannot be read included. */
  versions(): ReadonlyMap<string, string> {
    return new Map([...this.#entries].map(([key, { version }]) => [key, version]));
  }

  onChange(listener: (change: CacheChange<T>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @param decode is called only for a version that is not known yet */
  set(key: string, version: string, decode: () => T | undefined): void {
    const before = this.#entries.get(key);
    if (before?.version === version) return;
    const value = decode();
    this.#entries.set(key, { value, version });
    this.#tell(key, before?.value, value);
  }

  delete(key: string): void {
    const before = this.#entries.get(key);
    if (this.#entries.delete(key)) this.#tell(key, before?.value, undefined);
  }

  /** Removes what a complete list did not have. */
  keepOnly(keys: ReadonlySet<string>): void {
    for (const key of [...this.#entries.keys()]) if (!keys.has(key)) this.delete(key);
  }

  #tell(key: string, before: T | undefined, after: T | undefined): void {
    if (before === undefined && after === undefined) return;
    for (const listener of this.#listeners) {
      try {
        listener({ key, before, after });
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
