/** Where a cache gets its objects from, whatever the server: a list as of one version, and the changes since. */

/** What a feed tells the cache. */
export interface Sink<T> {
  /**
   * @param decode is called only for a version that is not known yet
   * @throws Error when the object cannot be read: it is left out and reported
   */
  put(key: string, version: string, decode: () => T): void;
  delete(key: string): void;
  /** Everything up to this version has been told: the next following begins behind it. */
  reached(version: string): void;
}

export interface Feed<T> {
  /** For messages: "pods of node a". */
  readonly name: string;
  /** Following ends often, to prove that the server can still be reached: when it cannot be begun again, connections may be dead. */
  readonly isHeartbeat: boolean;
  /**
   * Puts every object, and nothing else.
   * @param mayBeOld it may come from the server's memory; otherwise it must not be older than what was seen already
   * @returns the version to follow from
   */
  list(sink: Pick<Sink<T>, "put">, mayBeOld: boolean, signal: AbortSignal): Promise<string>;
  /**
   * Tells of every change behind `version`, and ends when the server ends it.
   * @param begun called once the server has agreed to tell
   * @throws GoneError when the server does not know of that version any more
   */
  follow(version: string, sink: Sink<T>, begun: () => void, signal: AbortSignal): Promise<void>;
}

/** The changes since a version are not kept any more: a new list is needed. */
export class GoneError extends Error {
  override readonly name = "GoneError";
}

/** What the server said instead of changes. */
export class WatchError extends Error {
  override readonly name: string = "WatchError";
  /** As HTTP has it. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** A watch brought nothing for longer than any living connection is silent: no event, no bookmark and no end. */
export class SilenceError extends WatchError {
  override readonly name = "SilenceError";

  /** @param limitMs how long nothing came */
  constructor(limitMs: number) {
    super(`nothing came for ${limitMs / 1_000} s: the connection is taken for dead`, 0);
  }
}
