/**
 * Guards the dataplane of a process that serves many calls: checks the namespace before each part, and keeps a GC from taking the
 * half-made link of an ADD of this very process for what a killed one left.
 */

import type { Dataplane } from "../../dataplane/dataplane.ts";
import { statusOf } from "../../lib/system/files.ts";

export function guardedDataplane(inner: Dataplane, canary: Pick<NamespaceCanary, "check">): Dataplane {
  /** Links that are being made now. */
  const making = new Set<Promise<unknown>>();
  const checked = (): Dataplane => {
    canary.check();
    return inner;
  };
  return {
    async apply(sandbox, desired) {
      const link = checked().apply(sandbox, desired);
      making.add(link);
      try {
        return await link;
      } finally {
        making.delete(link);
      }
    },
    inspect: (sandbox, desired, recorded) => checked().inspect(sandbox, desired, recorded),
    drift: (sandbox, recorded) => checked().drift(sandbox, recorded),
    mend: (sandbox, recorded) => checked().mend(sandbox, recorded),
    async remove(link) {
      // Waits until this process makes no link. An unfinished link is looked at again before its removal: one made here has its owner's
      // name then.
      if ("index" in link && link.owner === undefined) while (making.size > 0) await Promise.allSettled(making);
      return checked().remove(link);
    },
    ownerOf: (hostInterface) => checked().ownerOf(hostInterface),
    list: () => checked().list(),
    applyNode: (state) => checked().applyNode(state),
  };
}

/** Of the thread, not of the process. */
const OWN_NAMESPACE = "/proc/thread-self/ns/net";

/**
 * Detects a thread that was left in a sandbox's network namespace, which would change the wrong network from then on (A§12.3). The way back
 * is checked where it is made (lib/system/netns.ts); this looks once more before each part that touches the kernel. A thread in the wrong
 * namespace cannot be trusted again: the process ends and is started again.
 */
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
