/**
 * Guards the dataplane of a process that serves many calls: checks the namespace before each part, and keeps a GC from taking the
 * half-made link of an ADD of this very process for what a killed one left.
 */

import type {
  AppliedLink,
  AttachedLink,
  Dataplane,
  LinkOfAttachment,
  Mending,
  NetworkReport,
  NodeState,
  RecordedLink,
  RecordedPair,
  Removal,
} from "../../dataplane/dataplane.ts";
import type { DesiredState, Difference } from "../../dataplane/desired-state.ts";
import { statusOf } from "../../lib/system/files.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";

export class GuardedDataplane implements Dataplane {
  readonly #inner: Dataplane;
  readonly #canary: Pick<NamespaceCanary, "check">;
  /** Links that are being made now. */
  readonly #making = new Set<Promise<unknown>>();

  constructor(inner: Dataplane, canary: Pick<NamespaceCanary, "check">) {
    this.#inner = inner;
    this.#canary = canary;
  }

  async apply(sandbox: Sandbox, desired: DesiredState): Promise<AppliedLink> {
    this.#canary.check();
    const making = this.#inner.apply(sandbox, desired);
    this.#making.add(making);
    try {
      return await making;
    } finally {
      this.#making.delete(making);
    }
  }

  inspect(sandbox: Sandbox, desired: DesiredState, recorded?: RecordedLink): Promise<readonly Difference[]> {
    this.#canary.check();
    return this.#inner.inspect(sandbox, desired, recorded);
  }

  drift(sandbox: Sandbox, recorded: RecordedPair): Promise<readonly Difference[]> {
    this.#canary.check();
    return this.#inner.drift(sandbox, recorded);
  }

  mend(sandbox: Sandbox, recorded: RecordedPair): Promise<Mending> {
    this.#canary.check();
    return this.#inner.mend(sandbox, recorded);
  }

  async remove(link: AttachedLink | LinkOfAttachment): Promise<Removal> {
    if ("index" in link && link.owner === undefined) await this.#noneIsMade();
    this.#canary.check();
    return this.#inner.remove(link);
  }

  list(): Promise<readonly AttachedLink[]> {
    this.#canary.check();
    return this.#inner.list();
  }

  applyNode(state: NodeState): Promise<NetworkReport | undefined> {
    this.#canary.check();
    return this.#inner.applyNode(state);
  }

  /**
   * Waits until this process makes no link. An unfinished link is looked at again before its removal: one made here has its owner's name
   * then.
   */
  async #noneIsMade(): Promise<void> {
    while (this.#making.size > 0) await Promise.allSettled(this.#making);
  }
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
