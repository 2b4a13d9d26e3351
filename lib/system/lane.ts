/** Limits how many of one kind of work run at once. The others wait in the order of their coming. */
import { TortieError } from "../errors/errors.ts";
import { untilAborted } from "./waiting.ts";

interface Place {
  readonly enter: () => void;
  readonly isAwaited: (() => boolean) | undefined;
}

export interface LaneLimits {
  readonly running: number;
  /** Without it any number may wait. */
  readonly waiting?: number;
}

export class Lane {
  readonly #limits: LaneLimits;
  readonly #waiting = new Set<Place>();
  #running = 0;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  /**
   * @param isAwaited is asked when a place is free: who is awaited goes before the others of the lane. All of a lane have it, or none
   * @throws TortieError `agent-busy` when too many wait; the signal's reason when it aborts before the work's turn; what `work` throws
   */
  async run<T>(signal: AbortSignal, work: () => Promise<T>, isAwaited?: () => boolean): Promise<T> {
    if (this.#running < this.#limits.running) this.#running++;
    else await this.#turn(signal, isAwaited);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  async #turn(signal: AbortSignal, isAwaited: Place["isAwaited"]): Promise<void> {
    const { size } = this.#waiting;
    if (size >= (this.#limits.waiting ?? size + 1)) throw new TortieError("agent-busy", `${size} calls wait already, and no more may`);
    const { promise, resolve: enter } = Promise.withResolvers<void>();
    const place: Place = { enter, isAwaited };
    this.#waiting.add(place);
    try {
      await untilAborted(promise, signal);
    } catch (error) {
      // The turn may have come in the same moment.
      if (!this.#waiting.delete(place)) this.#leave();
      throw error;
    }
  }

  /** Hands the place to the next one directly, so that nobody who comes now can take it in between. */
  #leave(): void {
    const [first] = this.#waiting;
    const next = first?.isAwaited === undefined ? first : (this.#waiting.values().find((place) => place.isAwaited?.()) ?? first);
    if (next === undefined) this.#running--;
    else {
      this.#waiting.delete(next);
      next.enter();
    }
  }
}
