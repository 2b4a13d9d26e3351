/**
 * How many builds run at once over all endpoints (A§5.6). Kernel work is synchronous and short; what permits bound is compilation, and
 * waiting for others. Endpoints that an ADD waits for go first.
 */
import { availableParallelism } from "node:os";

interface Waiter {
  /** Smaller goes first; asked when a permit is free, for an ADD may begin to wait for a build that waits already. */
  readonly priority: () => number;
  readonly grant: () => void;
}

/** One for each processor, 2 to 8. */
export function defaultPermits(processors = availableParallelism()): number {
  return Math.min(8, Math.max(2, processors));
}

export class Permits {
  #free: number;
  readonly #waiters = new Set<Waiter>();

  constructor(count = defaultPermits()) {
    this.#free = count;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Disposing of the permit gives it back. @throws the signal's reason when it is aborted before a permit is free */
  async acquire(priority: () => number, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#wait(priority, signal);
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#giveBack();
        isHeld = false;
      },
    };
  }

  #wait(priority: () => number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abandon = () => {
        this.#waiters.delete(waiter);
        reject(signal.reason);
      };
      const waiter: Waiter = {
        priority,
        grant: () => {
          this.#waiters.delete(waiter);
          signal.removeEventListener("abort", abandon);
          resolve();
        },
      };
      this.#waiters.add(waiter);
      signal.addEventListener("abort", abandon, { once: true });
    });
  }

  /** The longest waiting of those with the smallest number gets it. */
  #giveBack(): void {
    let next: Waiter | undefined;
    let best = Number.POSITIVE_INFINITY;
    for (const waiter of this.#waiters) {
      const priority = waiter.priority();
      if (priority < best) [next, best] = [waiter, priority];
    }
    if (next === undefined) this.#free++;
    else next.grant();
  }
}
