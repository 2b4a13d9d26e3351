/**
 * GC in the agent (A§11.5): the attachments of this network that the runtime does not list are removed by their records, each in its own
 * turn, and then the flow of `main-plugin/gc.ts` collects what has no record. What is in use now, or added since, is kept.
 */
import { attachmentsToKeep } from "../../lib/config/decode.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type Clock, SYSTEM_CLOCK } from "../../lib/system/clock.ts";
import { withLimit } from "../../lib/system/waiting.ts";
import { serve } from "../../main-plugin/serve.ts";
import type { EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import type { ServedCall } from "./call.ts";
import type { OwnCollection } from "./collections.ts";
import type { AttachmentRecords } from "./records.ts";

/** One removal takes no longer of a GC's time; it goes on behind. */
const REMOVAL_LIMIT_MS = 20_000;

export interface CollectOptions {
  readonly records: AttachmentRecords;
  readonly collection: OwnCollection;
  /** Removes an attachment by its record, in its turn, unless its ADD has come since the GC began. */
  readonly finish: (record: EndpointRecord) => Promise<void>;
  /** Ends the GC, but no removal that has begun. */
  readonly signal: AbortSignal;
  readonly clock?: Clock;
}

/** Goes on after errors. @throws the first one at the end; the signal's reason */
export async function collectAttachments(served: ServedCall, options: CollectOptions): Promise<void> {
  const { records, collection, finish, signal, clock = SYSTEM_CLOCK } = options;
  const { call, node, log } = served;
  const { network } = call.request;
  const valid = attachmentsToKeep(call.config);
  const isKept = ({ containerId, ifname }: EndpointRecord["attachment"]) =>
    [...valid, ...collection.inUse()].some((one) => one.containerID === containerId && one.ifname === ifname);

  let first: { readonly error: unknown } | undefined;
  for (const record of records.list()) {
    signal.throwIfAborted();
    // Nothing is awaited between this look and the removal's place in line: an ADD that comes later is behind it.
    if (record.attachment.network !== network || isKept(record.attachment)) continue;
    const whose = `container ${record.attachment.containerId}, interface ${record.attachment.ifname}`;
    const late = new TortieError("agent-timeout", `${whose}: not removed within ${REMOVAL_LIMIT_MS / 1000} s; it goes on`);
    try {
      await withLimit(clock, { limitMs: REMOVAL_LIMIT_MS, late, signal }, () => finish(record));
    } catch (error) {
      log.error(`could not remove ${whose}: ${messageOf(error)}`);
      first ??= { error };
    }
  }
  signal.throwIfAborted();
  await serve({ ...call, signal, residence: { ...call.residence, collection } }, node);
  if (first !== undefined) throw first.error;
}
