/**
 * What a GC and the calls that come meanwhile know of each other (A§11.5). A GC never holds up the ADDs of its network: it asks before each
 * removal whether the attachment is in use, and only an ADD of the very container that it removes something of waits, for that removal.
 */
import type { CollectedOwner, Collection } from "../../ipam-plugin/call.ts";
import type { ValidAttachment } from "../../lib/cni/protocol.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Clock } from "../../lib/system/clock.ts";
import { withLimit } from "../../lib/system/waiting.ts";
import { type Attachment, attachmentKey, attachmentOfKey } from "../endpoints/record/endpoint-record.ts";

/** For a removal of the container's own; a runtime waits longer for an ADD. */
const REMOVAL_LIMIT_MS = 30_000;

export interface OwnCollection extends Collection, Disposable {
  /** Whether an ADD of the attachment has come since the GC began. */
  hasBegun(attachment: Attachment): boolean;
}

export class Collections {
  readonly #busy: () => readonly string[];
  readonly #clock: Clock;
  /** Of each GC under way, the keys of the attachments whose ADD has come since it began. */
  readonly #begun = new Set<Set<string>>();
  /** Removals under way, by the container that they are of. */
  readonly #removals = new Map<string, Promise<void>>();

  /** @param busy keys of the attachments that have an operation under way */
  constructor(busy: () => readonly string[], clock: Clock) {
    this.#busy = busy;
    this.#clock = clock;
  }

  /** An ADD has come: no GC that runs now may take its attachment for lost. */
  addCame(attachment: Attachment): void {
    for (const begun of this.#begun) begun.add(attachmentKey(attachment));
  }

  /** Waits while a GC removes something of the container. @throws the signal's reason; TortieError `attachment-locked` */
  async untilFree(attachment: Attachment, signal: AbortSignal): Promise<void> {
    const removal = this.#removals.get(containerKey(attachment));
    if (removal === undefined) return;
    const late = new TortieError("attachment-locked", `a GC removes what container ${attachment.containerId} left, and does not end`);
    await withLimit(this.#clock, { limitMs: REMOVAL_LIMIT_MS, late, signal }, () => removal);
  }

  /** A GC of the network begins; disposing of the collection ends it. */
  begin(network: string): OwnCollection {
    const begun = new Set<string>();
    this.#begun.add(begun);
    const inUse = () => attachmentsOf(network, [...begun, ...this.#busy()]);
    return {
      inUse,
      hasBegun: (attachment) => begun.has(attachmentKey(attachment)),
      remove: async (owner, work) => {
        if (inUse().some((one) => isOf(one, owner))) return false;
        await this.#removing(containerKey({ network, ...owner }), work);
        return true;
      },
      [Symbol.dispose]: () => void this.#begun.delete(begun),
    };
  }

  /** Of two GCs that remove something of one container the ADD waits for both. */
  async #removing(container: string, work: () => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const others = this.#removals.get(container);
    const all = Promise.all([others, promise]).then(() => undefined);
    this.#removals.set(container, all);
    try {
      await work();
    } finally {
      resolve();
      if (this.#removals.get(container) === all) this.#removals.delete(container);
    }
  }
}

function containerKey({ network, containerId }: Pick<Attachment, "network" | "containerId">): string {
  return attachmentKey({ network, containerId, ifname: "" });
}

function attachmentsOf(network: string, keys: readonly string[]): readonly ValidAttachment[] {
  return keys
    .map(attachmentOfKey)
    .filter((one) => one.network === network)
    .map(({ containerId, ifname }) => ({ containerID: containerId, ifname }));
}

function isOf({ containerID, ifname }: ValidAttachment, { containerId, interfaceName }: CollectedOwner): boolean {
  return containerID === containerId && (interfaceName ?? ifname) === ifname;
}
