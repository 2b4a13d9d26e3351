/** Makes an entry of the history of an operation on an attachment: its steps with their times, and what it failed of. */
import type { HistoryEntry } from "../../handover/history.ts";
import type { EndpointRecord } from "../../handover/record.ts";
import { describeError } from "../../lib/cni/error-output.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { resolveAttachmentCall } from "../../main-plugin/call.ts";
import { aboutRecord } from "../endpoints/history.ts";
import { firstOf, type ServedCall } from "./call.ts";

interface Ended {
  readonly served: ServedCall;
  /** As it was before the operation, and as it is after it. */
  readonly before: EndpointRecord | undefined;
  readonly after: EndpointRecord | undefined;
  readonly begunAt: Date;
  readonly milliseconds: number;
  /** `undefined`: it succeeded. */
  readonly error: unknown;
}

/** @returns `undefined` for what nobody asks about later: a CHECK that found nothing, a DEL of nothing, a GC, a STATUS */
export function operationEntry({ served, before, after, begunAt, milliseconds, error }: Ended): HistoryEntry | undefined {
  const { given, attachment, call } = served;
  const hasFailed = error !== undefined;
  const record = given.command === "DEL" ? before : (after ?? before);
  switch (given.command) {
    case "GC":
    case "STATUS":
      return undefined;
    case "CHECK":
      if (!hasFailed) return undefined;
      break;
    case "DEL":
      if (!hasFailed && record === undefined) return undefined;
  }
  const about = record === undefined ? { ...attachment, pod: podOf(call), addresses: [] } : aboutRecord(record);
  return {
    time: begunAt.toISOString(),
    event: given.command === "ADD" ? "add" : given.command === "DEL" ? "del" : "check",
    outcome: hasFailed ? "failed" : served.warnings() > 0 ? "warning" : "ok",
    ...about,
    ...(given.command === "DEL" && record?.committedAt !== undefined && { since: record.committedAt }),
    milliseconds: rounded(milliseconds),
    steps: served.steps().map(({ name, milliseconds: took }) => ({ name, milliseconds: rounded(took) })),
    ...(hasFailed && failureOf(error, served)),
  };
}

function failureOf(error: unknown, { secrets }: ServedCall): Pick<HistoryEntry, "message" | "word" | "next"> {
  const first = firstOf(error);
  const { msg, word } = describeError(error, secrets);
  return { message: msg, word, ...(first instanceof TortieError && { next: secrets.redact(first.next) }) };
}

/** Says whose the call is, where its arguments can be read. */
function podOf(call: ServedCall["call"]): string | undefined {
  try {
    const { namespace, pod } = resolveAttachmentCall(call).identity;
    return pod === "" ? undefined : `${namespace}/${pod}`;
  } catch {
    return undefined;
  }
}

function rounded(milliseconds: number): number {
  return Math.round(milliseconds * 10) / 10;
}
