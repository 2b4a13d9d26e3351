/**
 * Who may be under way together on one connection: readers in the order they came; a writer alone, after all that came before it. So a
 * write never travels behind a question whose failure would matter to it.
 */

interface Waiting {
  readonly isReader: boolean;
  readonly enter: () => void;
}

export class Turnstile {
  readonly #waiting: Waiting[] = [];
  #inside = 0;
  #isAlone = false;

  /** Waits for its turn; whoever was let in must `leave`. */
  enter(isReader: boolean): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#mayEnter(isReader)) {
      this.#admit(isReader);
      return undefined;
    }
    return new Promise((resolve) => this.#waiting.push({ isReader, enter: resolve }));
  }

  leave(): void {
    this.#inside--;
    this.#isAlone = false;
    for (let next = this.#waiting[0]; next !== undefined && this.#mayEnter(next.isReader); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#admit(next.isReader);
      next.enter();
    }
  }

  #mayEnter(isReader: boolean): boolean {
    return this.#inside === 0 || (isReader && !this.#isAlone);
  }

  #admit(isReader: boolean): void {
    this.#inside++;
    this.#isAlone = !isReader;
  }
}
