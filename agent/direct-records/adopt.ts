/**
 * How the agent takes over what plugins attached without it (A§11.6): every record, at its start and whenever one appears later, by a
 * plugin that had begun before the agent was there.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";
import type { AttachmentLocks } from "../run-directory/attachment-locks.ts";
import type { DirectRecords } from "./direct-records.ts";

/** Of the agent's endpoints. */
export interface Adopter {
  /** Gives the attachment an id, and keeps its record. An endpoint of the same attachment is replaced by it. Durable when it returns. */
  adopt(record: EndpointRecord): Promise<void>;
}

export interface AdoptionParts {
  readonly records: DirectRecords;
  readonly locks: Pick<AttachmentLocks, "tryTake">;
  readonly adopter: Adopter;
  readonly log: { info(message: string): void; error(message: string): void };
}

export interface Adoption {
  readonly adopted: readonly Attachment[];
  /** Left for the next time: a plugin works on them. */
  readonly busy: readonly Attachment[];
}

/**
 * Takes over every attachment that no plugin works on just now. One that its plugin left unfinished, because it was killed, is taken over
 * as well: its phase says so, and what an unfinished ADD of the agent's own would get is done with it.
 */
export async function adoptDirectRecords({ records, locks, adopter, log }: AdoptionParts): Promise<Adoption> {
  const found = records.list();
  for (const { path, reason } of found.unreadable) log.error(`a record of direct mode cannot be read and is kept as ${path}: ${reason}`);
  const adopted: Attachment[] = [];
  const busy: Attachment[] = [];
  for (const { attachment } of found.records) {
    using lock = locks.tryTake(keyOf(attachment));
    if (lock === undefined) {
      busy.push(attachment);
      continue;
    }
    // Again, under the lock: it may have been finished or removed meanwhile.
    const record = records.read(attachment);
    if (record === undefined) continue;
    try {
      await adopter.adopt(record);
      records.remove(attachment);
      adopted.push(attachment);
    } catch (error) {
      log.error(`container ${attachment.containerId}, attached in direct mode, cannot be taken over: ${messageOf(error)}`);
    }
  }
  if (adopted.length > 0) log.info(`${adopted.length} attachments of direct mode taken over`);
  return { adopted, busy };
}

function keyOf({ network, containerId, ifname }: Attachment): string {
  return attachmentKey({ network, containerId, interfaceName: ifname });
}
