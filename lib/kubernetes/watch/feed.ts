/**
 * Says where a cache gets its objects from, whatever the server: a list as of one version, and the changes since; and how the stream
 * of a watch is read.
 */
import type { Clock } from "../../system/waiting.ts";

/** What a feed tells the cache. */
export interface Sink<T> {
  /**
   * @param decode is called only for a version that is not known yet
   * @throws Error when the object cannot be read: it is left out and reported
   */
  put(key: string, version: string, decode: () => T): void;
  delete(key: string): void;
  /** Says that everything up to this version has come: the next following begins behind it. */
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

/** Says that the changes since a version are not kept any more: a new list is needed. */
export class GoneError extends Error {
  override readonly name = "GoneError";
}

/** Carries what the server said instead of changes. */
export class WatchError extends Error {
  override readonly name: string = "WatchError";
  /** As HTTP has it. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Says that a watch brought nothing for longer than any living connection is silent: no event, no bookmark and no end. */
export class SilenceError extends WatchError {
  override readonly name = "SilenceError";

  /** @param limitMs how long nothing came */
  constructor(limitMs: number) {
    super(`nothing came for ${limitMs / 1_000} s: the connection is taken for dead`, 0);
  }
}

/** A block with 1024 addresses has some 200 KiB. */
const LONGEST_LINE = 64 * 1024 * 1024;

/**
 * Reads the body of a watch as lines, of which each is one JSON document. Leaves out empty lines, and a last one that has no end.
 * @throws Error when the body ends in an error, or a line is too long
 */
export async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of body) {
    pending += decoder.decode(chunk, { stream: true });
    let begin = 0;
    for (let end = pending.indexOf("\n"); end >= 0; end = pending.indexOf("\n", begin)) {
      if (end > begin) yield pending.slice(begin, end);
      begin = end + 1;
    }
    pending = pending.slice(begin);
    if (pending.length > LONGEST_LINE) throw new Error(`the watch sent an event larger than ${LONGEST_LINE} bytes`);
  }
}

/**
 * Opens a stream, and reads it until it ends. The beginning and every item must come within the limit: a dead connection without a reset
 * never ends by itself. A stream that does not listen to its signal is left behind.
 *
 * @param open gets a signal that is also aborted when the stream was silent for too long
 * @param limitMs milliseconds on the clock
 * @throws SilenceError when nothing came within the limit; what the stream throws; the reason of `signal`
 */
export async function* unlessSilent<T>(
  open: (signal: AbortSignal) => Promise<AsyncIterable<T>>,
  limitMs: number,
  clock: Pick<Clock, "now" | "sleep">,
  signal: AbortSignal,
): AsyncGenerator<T> {
  const [silence, over] = [new AbortController(), new AbortController()];
  const ended = AbortSignal.any([signal, silence.signal]);
  let heardAt = clock.now();
  let giveUp: (reason: unknown) => void = () => {};
  ended.addEventListener("abort", () => giveUp(ended.reason));
  const heard = async <R>(waiting: Promise<R>): Promise<R> => {
    // No race with one promise for the life of the stream: it would keep every item until then.
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    giveUp = reject;
    waiting.then(resolve, reject);
    const result = await promise;
    heardAt = clock.now();
    return result;
  };
  const watchdog = async () => {
    for (let left = limitMs; left > 0 && !over.signal.aborted; left = heardAt + limitMs - clock.now()) await clock.sleep(left, over.signal);
    if (!over.signal.aborted) silence.abort(new SilenceError(limitMs));
  };
  void watchdog();
  let items: AsyncIterator<T> | undefined;
  try {
    signal.throwIfAborted();
    items = (await heard(open(ended)))[Symbol.asyncIterator]();
    for (let next = await heard(items.next()); next.done !== true; next = await heard(items.next())) yield next.value;
  } finally {
    over.abort();
    // Not awaited: a stream that is silent may not answer to its end either.
    void items?.return?.().catch(() => undefined);
  }
}
