/**
 * The events of one endpoint: first in first out, one at a time (A§5.6). There is always room, because events of one
 * kind that still wait are one event: enqueueing never waits for a place.
 */

export type EventKind = "build" | "policy-revision" | "visibility";

export class EventQueue {
  readonly #waiting = new Map<EventKind, () => Promise<void>>();
  readonly #stopped = new AbortController();
  #running: Promise<void> | undefined;

  /** Aborted when the queue is stopped: the running event is to end then. */
  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  /**
   * Lets `event` run after those that wait, unless one of its kind waits already: then that one stands for both.
   * A stopped queue takes nothing more.
   * @param event handles its own failures
   * @returns whether the event will run, itself or by the one that stands for it
   */
  enqueue(kind: EventKind, event: () => Promise<void>): boolean {
    if (this.signal.aborted) return false;
    if (!this.#waiting.has(kind)) this.#waiting.set(kind, event);
    this.#running ??= this.#run();
    return true;
  }

  /** Cancels what waits, asks the running event to end, and waits for that. */
  async stop(reason: Error): Promise<void> {
    this.#waiting.clear();
    this.#stopped.abort(reason);
    await this.#running;
  }

  /** Until nothing runs or waits. */
  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  async #run(): Promise<void> {
    // Not within the caller's own turn: it may be in the middle of a change.
    await Promise.resolve();
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) break;
      const [kind, event] = next;
      this.#waiting.delete(kind);
      await event();
    }
    this.#running = undefined;
  }
}
