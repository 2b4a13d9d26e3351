/** What the service needs of the endpoints' records; `agent/endpoints` has them. The record is the journal (A§11.4). */
import type { Attachment, EndpointRecord } from "../endpoints/record/endpoint-record.ts";

/** What is known of an attachment when its ADD begins. The store adds an id, its boot and the times. */
type NewAttachment = Pick<EndpointRecord, "attachment" | "pod" | "netns" | "podInterface" | "linkForm" | "request" | "traceparent"> &
  Partial<Pick<EndpointRecord, "addresses">>;

export interface AttachmentRecords {
  find(attachment: Attachment): EndpointRecord | undefined;
  list(): readonly EndpointRecord[];
  /** Takes an id and writes the record in phase `creating`. */
  begin(attachment: NewAttachment): Promise<EndpointRecord>;
  /** Durable when it returns. @returns the record with its new time */
  write(record: EndpointRecord): Promise<EndpointRecord>;
  /** In memory alone. @returns the record with its new time */
  keep(record: EndpointRecord): EndpointRecord;
  /** Identity and the first build (A§11.4 step 7). @param signal ends the wait */
  build(record: EndpointRecord, signal: AbortSignal): Promise<EndpointRecord>;
  /** Phase `ready`: what follows it, such as the object in the cluster, begins behind the caller. */
  commit(record: EndpointRecord): Promise<EndpointRecord>;
  /** An ADD was taken back: nothing of it is left. */
  discard(record: EndpointRecord): Promise<void>;
  /** A removal is done: link, addresses and record in the store are gone. */
  remove(record: EndpointRecord): Promise<void>;
  /** A removal could not be finished: it is repeated, by `AttachmentService.finish`, until it is. */
  retry(record: EndpointRecord, error: unknown): Promise<void>;
}
