/** Limits how many requests run at one time; further ones wait in line. */
export class Slots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      // The slot goes to the next in line directly, so that no later request can take it in between.
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
