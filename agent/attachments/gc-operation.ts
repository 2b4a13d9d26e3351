/**
 * GC in the agent (A§11.5): the attachments of this network that the runtime does not list are removed by their records, each in its own
 * turn, and then the flow of `main-plugin/gc.ts` collects what has no record. What is being added or deleted now is kept.
 */
import { attachmentsToKeep } from "../../lib/config/valid-attachments.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { serve } from "../../main-plugin/serve.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import type { ServedCall } from "./call.ts";
import type { AttachmentRecords } from "./records.ts";

export interface CollectOptions {
  readonly records: AttachmentRecords;
  /** Attachments that something is done with now. */
  readonly busy: () => readonly Attachment[];
  /** Removes an attachment by its record, in its turn. */
  readonly finish: (record: EndpointRecord) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Goes on after errors. @throws the first one at the end */
export async function collectAttachments(served: ServedCall, { records, busy, finish, signal }: CollectOptions): Promise<void> {
  const { call, node, log } = served;
  const { network } = call.request;
  const valid = attachmentsToKeep(call.config);
  const underWay = busy();
  const kept = [
    ...valid,
    ...underWay.filter((one) => one.network === network).map(({ containerId, ifname }) => ({ containerID: containerId, ifname })),
  ];
  const isKept = ({ containerId, ifname }: Attachment) => kept.some((one) => one.containerID === containerId && one.ifname === ifname);

  let first: { readonly error: unknown } | undefined;
  for (const record of records.list()) {
    if (record.attachment.network !== network || isKept(record.attachment)) continue;
    try {
      await finish(record);
    } catch (error) {
      log.error(`could not remove container ${record.attachment.containerId}, interface ${record.attachment.ifname}: ${messageOf(error)}`);
      first ??= { error };
    }
  }
  await serve({ ...call, config: { ...call.config, validAttachments: kept }, signal }, node);
  if (first !== undefined) throw first.error;
}
