/**
 * Who may be under way together on one connection, in the order they came: readers, and one writer behind them. Nobody follows a writer
 * before it has its answer (RFC 9112, 9.3.2). Whoever must not write before a question is answered waits for that answer first.
 */

/** `alone`: neither behind others nor before them. */
export type Passenger = "reader" | "writer" | "alone";

interface Waiting {
  readonly passenger: Passenger;
  readonly enter: () => void;
}

export class Turnstile {
  readonly #waiting: Waiting[] = [];
  #inside = 0;
  #isClosed = false;

  /** Waits for its turn; whoever was let in must `leave`. */
  enter(passenger: Passenger): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#mayEnter(passenger)) {
      this.#admit(passenger);
      return undefined;
    }
    return new Promise((resolve) => this.#waiting.push({ passenger, enter: resolve }));
  }

  leave(passenger: Passenger): void {
    this.#inside--;
    if (passenger !== "reader") this.#isClosed = false;
    for (let next = this.#waiting[0]; next !== undefined && this.#mayEnter(next.passenger); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#admit(next.passenger);
      next.enter();
    }
  }

  #mayEnter(passenger: Passenger): boolean {
    return this.#inside === 0 || (passenger !== "alone" && !this.#isClosed);
  }

  #admit(passenger: Passenger): void {
    this.#inside++;
    this.#isClosed = passenger !== "reader";
  }
}
