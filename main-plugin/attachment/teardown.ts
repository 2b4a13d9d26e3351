/** Work that goes on after an error: each step is tried, each failure logged, the first one reported at the end (design, invariant 4). */
import type { Logger } from "../../lib/log/logger.ts";

export class Teardown {
  readonly #log: Logger;
  #first: { readonly error: unknown } | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** @returns whether the step succeeded */
  async attempt(what: string, step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      this.#log.error(`could not ${what}`, { error });
      this.#first ??= { error };
      return false;
    }
  }

  /** Throws the first failure, if there was one. */
  report(): void {
    if (this.#first !== undefined) throw this.#first.error;
  }
}
