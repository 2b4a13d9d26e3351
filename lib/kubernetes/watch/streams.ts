/** The bytes of a watch as lines, and the end of a stream that has gone silent. */
import type { Clock } from "../../system/clock.ts";
import { SilenceError } from "./feed.ts";

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
