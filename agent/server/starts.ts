/**
 * Calls begin one in each turn of the event loop. On a local store a call waits for nothing, so that those which came together would
 * otherwise run one after the other before anything else: no timer, no answer to a probe, no end of a connection.
 */
export class Starts {
  #last = Promise.resolve();

  /** Resolves in a turn of the event loop that no other caller has. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => new Promise((resolve) => void setImmediate(resolve)));
    return this.#last;
  }
}
