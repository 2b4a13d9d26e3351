/** Waits for something to happen in a directory. */
import { type FSWatcher, watch } from "node:fs";

/** Watches one directory with inotify(7), where it is available: a look every now and then makes up for what it misses. */
export class DirectoryEvents {
  readonly #directory: string;
  #watcher: FSWatcher | undefined;
  #hasNews = false;
  #wake: () => void = () => {};

  constructor(directory: string) {
    this.#directory = directory;
  }

  watch(): void {
    if (this.#watcher !== undefined) return;
    try {
      this.#watcher = watch(this.#directory, () => {
        this.#hasNews = true;
        this.#wake();
      });
      this.#watcher.on("error", () => this.close());
    } catch {
      // No such directory yet: the next look tries again.
    }
  }

  /** Waits for the next event since the last call, or the end of the time. */
  async next(milliseconds: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, milliseconds);
    this.#wake = resolve;
    if (this.#hasNews) resolve();
    await promise;
    this.#hasNews = false;
    clearTimeout(timer);
  }

  /** Stops watching; every waiting caller goes on at once. */
  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#wake();
  }
}

interface Look {
  readonly look: () => Promise<void>;
  readonly onError: (error: unknown) => void;
  readonly pauseMs: () => number;
}

/** Looks at a directory now, whenever something happens in it, and after each pause, until it is stopped. */
export class DirectoryWatch {
  readonly #events: DirectoryEvents;
  #loop: Promise<void> = Promise.resolve();
  isStopped = false;

  constructor(directory: string) {
    this.#events = new DirectoryEvents(directory);
  }

  start(look: Look): void {
    this.#loop = this.#run(look);
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.#events.close();
    await this.#loop;
  }

  async #run({ look, onError, pauseMs }: Look): Promise<void> {
    while (!this.isStopped) {
      // Before the look: what appears between the two is seen by one of them.
      this.#events.watch();
      try {
        await look();
      } catch (error) {
        onError(error);
      }
      if (!this.isStopped) await this.#events.next(pauseMs());
    }
  }
}
