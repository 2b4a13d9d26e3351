/**
 * Runs a GC in the agent (A§11.5): removes the attachments of this network that the runtime does not list by their records, each in its own
 * turn, and then the flow of `main-plugin/gc.ts` collects what has no record. A GC never holds up the ADDs of its network: it asks before
 * each removal whether the attachment is in use, and only an ADD of the very container that it removes something of waits, for that
 * removal.
 */

import type { EndpointRecord } from "../../handover/record.ts";
import type { CollectedOwner, Collection } from "../../ipam-plugin/call.ts";
import { type AttachmentId, attachmentOfLineKey, isListed, lineKey } from "../../lib/cni/attachment-id.ts";
import type { ValidAttachment } from "../../lib/cni/protocol.ts";
import { attachmentsToKeep } from "../../lib/config/decode.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type Clock, SYSTEM_CLOCK, withLimit } from "../../lib/system/waiting.ts";
import { serve } from "../../main-plugin/serve.ts";
import type { ServedCall } from "./call.ts";
import type { AttachmentRecords } from "./flows.ts";

/** One removal takes no longer of a GC's time; it goes on behind. */
const REMOVAL_LIMIT_MS = 20_000;
/** What an ADD waits for a removal of its container; a runtime waits longer for an ADD. */
const ADD_WAIT_LIMIT_MS = 30_000;

interface CollectOptions {
  readonly records: Pick<AttachmentRecords, "list">;
  readonly collection: OwnCollection;
  /** Removes an attachment by its record, in its turn, unless its ADD has come since the GC began. */
  readonly finish: (record: EndpointRecord) => Promise<void>;
  /** Ends the GC, but no removal that has begun. */
  readonly signal: AbortSignal;
}

/** Goes on after errors. @throws the first one at the end; the signal's reason */
export async function collectAttachments(served: ServedCall, { records, collection, finish, signal }: CollectOptions): Promise<void> {
  const { call, host, log } = served;
  const valid = attachmentsToKeep(call.config);
  let first: { readonly error: unknown } | undefined;
  for (const record of records.list()) {
    signal.throwIfAborted();
    const { attachment } = record;
    // Nothing is awaited between this look and the removal's place in line: an ADD that comes later is behind it.
    if (attachment.network !== call.request.network || isListed([...valid, ...collection.inUse()], attachment)) continue;
    const whose = `container ${attachment.containerId}, interface ${attachment.ifname}`;
    const late = new TortieError("agent-timeout", `${whose}: not removed within ${REMOVAL_LIMIT_MS / 1000} s; it goes on`);
    try {
      await withLimit(SYSTEM_CLOCK, { limitMs: REMOVAL_LIMIT_MS, late, signal }, () => finish(record));
    } catch (error) {
      log.error(`could not remove ${whose}: ${messageOf(error)}`);
      first ??= { error };
    }
  }
  signal.throwIfAborted();
  await serve({ ...call, signal, collection }, host);
  if (first !== undefined) throw first.error;
}

export interface OwnCollection extends Collection, Disposable {
  /** Says whether an ADD of the attachment has come since the GC began. */
  hasBegun(attachment: AttachmentId): boolean;
}

/** Tells a GC and the calls that come meanwhile about each other. */
export class Collections {
  readonly #busy: () => readonly string[];
  readonly #clock: Clock;
  /** Of each GC under way, the keys of the attachments whose ADD has come since it began. */
  readonly #begun = new Set<Set<string>>();
  /** Removals under way, by the container that they are of. */
  readonly #removals = new Map<string, Promise<void>>();

  /** @param busy line keys of the attachments that have an operation under way */
  constructor(busy: () => readonly string[], clock: Clock) {
    this.#busy = busy;
    this.#clock = clock;
  }

  /** Notes that an ADD has come: no GC that runs now may take its attachment for lost. */
  addCame(attachment: AttachmentId): void {
    for (const begun of this.#begun) begun.add(lineKey(attachment));
  }

  /** Waits while a GC removes something of the container. @throws the signal's reason; TortieError `attachment-locked` */
  async untilFree(attachment: AttachmentId, signal: AbortSignal): Promise<void> {
    const removal = this.#removals.get(containerKey(attachment));
    if (removal === undefined) return;
    const late = new TortieError("attachment-locked", `a GC removes what container ${attachment.containerId} left, and does not end`);
    await withLimit(this.#clock, { limitMs: ADD_WAIT_LIMIT_MS, late, signal }, () => removal);
  }

  /** Begins a GC of the network; disposing of the collection ends it. */
  begin(network: string): OwnCollection {
    const begun = new Set<string>();
    this.#begun.add(begun);
    const inUse = () => attachmentsOf(network, [...begun, ...this.#busy()]);
    return {
      inUse,
      hasBegun: (attachment) => begun.has(lineKey(attachment)),
      remove: async (owner, work) => {
        if (inUse().some((one) => isOf(one, owner))) return false;
        await this.#removing(containerKey({ network, ...owner }), work);
        return true;
      },
      [Symbol.dispose]: () => void this.#begun.delete(begun),
    };
  }

  /** Makes the ADD wait for both of two GCs that remove something of one container. */
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

function containerKey({ network, containerId }: Pick<AttachmentId, "network" | "containerId">): string {
  return lineKey({ network, containerId, ifname: "" });
}

function attachmentsOf(network: string, keys: readonly string[]): readonly ValidAttachment[] {
  return keys
    .map(attachmentOfLineKey)
    .filter((one) => one.network === network)
    .map(({ containerId, ifname }) => ({ containerID: containerId, ifname }));
}

function isOf(one: ValidAttachment, { containerId, ifname = one.ifname }: CollectedOwner): boolean {
  return one.containerID === containerId && one.ifname === ifname;
}
