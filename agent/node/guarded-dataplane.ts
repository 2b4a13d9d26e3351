/**
 * The dataplane of a process that serves many calls: looks for the namespace before each part, and keeps a GC from taking the
 * half-made link of an ADD of this very process for what a killed one left.
 */
import type {
  AppliedLink,
  AttachedLink,
  Dataplane,
  LinkOfAttachment,
  Mending,
  RecordedLink,
  RecordedPair,
  Removal,
} from "../../dataplane/dataplane.ts";
import type { DesiredState, Difference } from "../../dataplane/desired-state.ts";
import type { NetworkReport } from "../../dataplane/node-network.ts";
import type { NodeState } from "../../dataplane/node-state.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import type { NamespaceCanary } from "./canary.ts";

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

  /** An unfinished link is looked at again when it is removed: one that this process was making has its owner's name by then. */
  async #noneIsMade(): Promise<void> {
    while (this.#making.size > 0) await Promise.allSettled(this.#making);
  }
}
