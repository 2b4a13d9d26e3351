/** DEL in the agent, and the removal of what an ADD left: the flow of `main-plugin/del.ts`, with the record first and last (A§5.10). */
import { serve } from "../../main-plugin/serve.ts";
import type { ServedCall } from "./call.ts";
import type { AttachmentRecords } from "./records.ts";

/** A DEL is carried out whatever becomes of its caller. */
const NEVER = new AbortController().signal;

/**
 * @param sandbox leads to the sandbox where the request's path does not; "" for one that is gone
 * @throws what the flow throws; the removal of a known attachment is repeated behind until nothing is left
 */
export async function removeAttachment(served: ServedCall, records: AttachmentRecords, sandbox?: string): Promise<void> {
  const { attachment, call, node } = served;
  const known = records.find(attachment);
  const record = known && (await records.write({ ...known, phase: "deleting:begun" }));
  const residence = sandbox === undefined ? {} : { sandbox };
  try {
    await serve({ ...call, request: { ...call.request, command: "DEL" }, signal: NEVER, residence }, node);
  } catch (error) {
    if (record !== undefined) await records.retry(record, error);
    throw error;
  }
  if (record !== undefined) await records.remove(record);
}
