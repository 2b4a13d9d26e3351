/** Gives drops to one reader as they come, a line of JSON for each. A reader that is too slow loses drops, and is told how many. */
import { Readable } from "node:stream";
import type { Drop } from "../policy/drop.ts";
import type { DropHistory } from "../policy/view.ts";

/** Lines that wait for the reader beyond what its connection has room for. */
const MOST_WAITING = 256;

export class DropStream extends Readable {
  readonly #waiting: string[] = [];
  readonly #leave: () => void;
  #missed = 0;
  #isReading = false;
  #isOver = false;

  /** @param hostInterface `undefined`: drops of all endpoints. @param ending ends the answer in order */
  constructor(history: Pick<DropHistory, "follow">, hostInterface: string | undefined, ending: AbortSignal, text: (drop: Drop) => string) {
    super({ encoding: "utf8" });
    // The beginning of the answer goes out with its first line; an empty one says nothing else.
    this.#waiting.push("");
    const unfollow = history.follow((drop) => {
      if (hostInterface === undefined || drop.hostInterface === hostInterface) this.#add(() => text(drop));
    });
    const end = () => this.#end();
    ending.addEventListener("abort", end);
    this.#leave = () => {
      unfollow();
      ending.removeEventListener("abort", end);
    };
    if (ending.aborted) this.#end();
  }

  override _read(): void {
    this.#isReading = true;
    this.#flush();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#leave();
    done(error);
  }

  #add(text: () => string): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.#missed++;
      return;
    }
    if (this.#missed > 0) {
      this.#waiting.push(JSON.stringify({ missed: this.#missed }));
      this.#missed = 0;
    }
    this.#waiting.push(text());
    this.#flush();
  }

  #end(): void {
    this.#isOver = true;
    this.#leave();
    this.#flush();
  }

  #flush(): void {
    while (this.#isReading && this.#waiting.length > 0) this.#isReading = this.push(`${this.#waiting.shift()}\n`);
    if (this.#isReading && this.#isOver) this.push(null);
  }
}
