/** DEL in the agent, and the removal of what an ADD left: the flow of `main-plugin/del.ts`, with the record first and last (A§5.10). */

import type { Sandbox } from "../../lib/system/sandbox.ts";
import { NEVER } from "../../lib/system/waiting.ts";
import { serve } from "../../main-plugin/serve.ts";
import { sandboxOfRecord } from "../endpoints/recorded-sandbox.ts";
import type { ServedCall } from "./call.ts";
import type { AttachmentRecords } from "./records.ts";

/** A DEL is carried out whatever becomes of its caller. */

/**
 * @param given the sandbox of the call; `undefined` when it is gone or cannot be proven
 * @throws what the flow throws; the removal of a known attachment is repeated behind until nothing is left
 */
export async function removeAttachment(served: ServedCall, records: AttachmentRecords, given: Sandbox | undefined): Promise<void> {
  const { attachment, call, node } = served;
  const known = records.find(attachment);
  const record = known && (await records.write({ ...known, phase: "deleting:begun" }));
  // The record says which sandbox the attachment was in: the path of a late DEL may be another container's by now.
  using sandbox = known === undefined ? given?.borrowed() : sandboxOfRecord(known, given);
  const residence = { sandbox: sandbox ?? "gone" } as const;
  try {
    await serve({ ...call, request: { ...call.request, command: "DEL" }, signal: NEVER, residence }, node);
  } catch (error) {
    if (record !== undefined) await records.retry(record, error);
    throw error;
  }
  if (record !== undefined) await records.remove(record);
}
