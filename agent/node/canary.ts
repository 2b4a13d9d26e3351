/**
 * A thread that was left in a sandbox's network namespace would change the wrong network from then on (A§12.3). The way back is checked
 * where it is made (lib/system/netns.ts); this looks once more before each part that touches the kernel. A thread in the wrong namespace
 * cannot be trusted again: the process ends and is started anew.
 */
import { statusOf } from "../../lib/system/files.ts";

/** Of the thread, not of the process. */
const OWN_NAMESPACE = "/proc/thread-self/ns/net";

export class NamespaceCanary {
  readonly #home: string | undefined;
  readonly #look: () => string | undefined;
  readonly #abort: (message: string) => never;

  /** @param abort ends the process; tests give another */
  constructor(abort: (message: string) => never, look: () => string | undefined = () => statusOf(OWN_NAMESPACE)?.identity) {
    this.#look = look;
    this.#abort = abort;
    this.#home = look();
  }

  /** Ends the process unless this thread is in the network namespace that it began in. */
  check(): void {
    const here = this.#look();
    if (here !== this.#home)
      this.#abort(`the agent is in network namespace ${here}, not in its own, ${this.#home}: it ends and is started again`);
  }
}
