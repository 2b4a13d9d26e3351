/**
 * Keys to be worked on, each at most once at a time: one that comes again during its work is worked on again afterwards. A failure puts
 * the key back, later each time; all keys share one rate (figures of kube-controllers, I§5.4).
 */
import { messageOf } from "../lib/errors/errors.ts";
import { TokenBucket } from "../lib/kubernetes/client/limits.ts";
import { type BackOff, type Clock, pauseAfter } from "../lib/system/waiting.ts";

const BACK_OFF: BackOff = { base: 5, longest: 30_000 };
const RATE_PER_SECOND = 10;
const BURST = 100;

export interface QueueStatus {
  /** The key that is being worked on. */
  readonly working: string | undefined;
  readonly length: number;
  /** Keys whose last try failed, with what it said. */
  readonly failing: readonly { readonly key: string; readonly failures: number; readonly message: string }[];
}

interface Failure {
  readonly count: number;
  readonly message: string;
}

export class WorkQueue {
  readonly #clock: Clock;
  readonly #bucket: TokenBucket;
  /** When each key is due. */
  readonly #due = new Map<string, number>();
  readonly #failures = new Map<string, Failure>();
  #working: string | undefined;
  #woken = Promise.withResolvers<void>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#bucket = new TokenBucket(RATE_PER_SECOND, BURST, clock.now());
  }

  /** A key that waits after a failure goes on waiting. */
  add(key: string): void {
    if (this.#due.has(key)) return;
    this.#due.set(key, this.#clock.now());
    this.#woken.resolve();
  }

  get status(): QueueStatus {
    const failing = [...this.#failures].map(([key, { count, message }]) => ({ key, failures: count, message }));
    return { working: this.#working, length: this.#due.size, failing };
  }

  /** Works on one key after the other until the signal is aborted. Never rejects. @param onFailure called after each failure */
  async run(
    work: (key: string, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
    onFailure: (key: string, message: string) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      const [key, due] = this.#next() ?? [undefined, Number.POSITIVE_INFINITY];
      const wait = due - this.#clock.now();
      if (key === undefined || wait > 0) {
        await this.#sleep(wait, signal);
        continue;
      }
      const turn = this.#bucket.take(this.#clock.now());
      if (turn > 0) await this.#clock.sleep(turn, signal);
      if (signal.aborted) return;
      this.#due.delete(key);
      this.#working = key;
      try {
        await work(key, signal);
        this.#failures.delete(key);
      } catch (error) {
        if (signal.aborted) return;
        const count = (this.#failures.get(key)?.count ?? 0) + 1;
        const message = messageOf(error);
        this.#failures.set(key, { count, message });
        this.#due.set(key, this.#clock.now() + pauseAfter(count, BACK_OFF, this.#clock));
        onFailure(key, message);
      } finally {
        this.#working = undefined;
      }
    }
  }

  #next(): readonly [string, number] | undefined {
    let first: readonly [string, number] | undefined;
    for (const entry of this.#due) if (first === undefined || entry[1] < first[1]) first = entry;
    return first;
  }

  /** Until a key comes, the time is over, or the signal is aborted. */
  async #sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
    this.#woken = Promise.withResolvers();
    const awake = new AbortController();
    const ended = AbortSignal.any([awake.signal, signal]);
    void this.#woken.promise.then(() => awake.abort());
    await this.#clock.sleep(Number.isFinite(milliseconds) ? milliseconds : 60_000, ended);
  }
}
