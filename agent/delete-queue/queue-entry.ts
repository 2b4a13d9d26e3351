/** What is in a file of the delete queue (A§11.5): the call as a record keeps it, and what is known of it. */
import { field, isBoolean, isNumber, isText, optional, parseObject } from "../../lib/json/decode.ts";
import { bootTimeMs } from "../../lib/system/boot-time.ts";
import type { Attachment } from "../endpoints/record/endpoint-record.ts";
import { readSettings } from "../forward/settings.ts";
import { attachmentKey } from "../run-directory/attachment-key.ts";

export interface QueuedDelete {
  readonly attachment: Attachment;
  /** Of the call. */
  readonly body: unknown;
  /** Milliseconds since the machine's boot; absent in files of earlier versions. */
  readonly queuedBootMs: number | undefined;
  /** A plugin has carried it out: only the agent's record is left to be removed. */
  readonly isServed: boolean;
}

/** @param call as a record keeps it */
export function entryText(call: object, isServed: boolean): string {
  return JSON.stringify({ ...call, queuedBootMs: bootTimeMs(), ...(isServed ? { isServed } : {}) });
}

/** @param key of the file @throws Error when it is not the DEL of the attachment that the file is named after */
export function parseEntry(text: string, key: string): QueuedDelete {
  const body = parseObject(text);
  const network = readSettings(field(body, "stdin", isText))?.network ?? "";
  const attachment = { network, containerId: field(body, "containerId", isText), ifname: field(body, "ifname", isText) };
  if (keyOf(attachment) !== key) throw new Error("it is the DEL of another attachment");
  const { queuedBootMs } = optional(body, "queuedBootMs", isNumber);
  const { isServed = false } = optional(body, "isServed", isBoolean);
  return { attachment, body, queuedBootMs, isServed };
}

export function keyOf({ network, containerId, ifname }: Attachment): string {
  return attachmentKey({ network, containerId, interfaceName: ifname });
}
