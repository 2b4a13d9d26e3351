/** Asks the live questions again and again while somebody listens, and tells the listeners of answers that have changed. */
import { type Clock, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import type { LiveName } from "../../../ui/contract.ts";

/** Takes the name of an event and its text, which is one line of JSON. */
type Listener = (event: LiveName, text: string) => void;

const BETWEEN_MS = 1_000;
/** Leaves nine tenths of the time to others: a large cluster takes seconds to list. */
const PAUSE_FACTOR = 9;

export class Live {
  readonly #names: readonly LiveName[];
  readonly #ask: (name: LiveName) => Promise<string>;
  readonly #clock: Pick<Clock, "sleep">;
  readonly #listeners = new Set<Listener>();
  readonly #last = new Map<LiveName, string>();
  #ending: AbortController | undefined;

  constructor(names: readonly LiveName[], ask: (name: LiveName) => Promise<string>, clock: Pick<Clock, "sleep"> = SYSTEM_CLOCK) {
    this.#names = names;
    this.#ask = ask;
    this.#clock = clock;
  }

  /** Tells the listener what is known, and of every change. @returns what ends it */
  follow(listener: Listener): () => void {
    this.#listeners.add(listener);
    for (const [name, text] of this.#last) listener(name, text);
    if (this.#ending === undefined) {
      this.#ending = new AbortController();
      for (const name of this.#names) void this.#repeat(name, this.#ending.signal);
    }
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stop();
    };
  }

  /** Forgets the answers: they would be old for the next listener. */
  #stop(): void {
    this.#ending?.abort();
    this.#ending = undefined;
    this.#last.clear();
  }

  async #repeat(name: LiveName, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const begin = performance.now();
      const text = await this.#ask(name);
      if (signal.aborted) return;
      if (this.#last.get(name) !== text) {
        this.#last.set(name, text);
        for (const listener of this.#listeners) listener(name, text);
      }
      await this.#clock.sleep(Math.max(BETWEEN_MS, PAUSE_FACTOR * (performance.now() - begin)), signal);
    }
  }
}
