/**
 * Notes in the history (handover/history.ts) who got and gave up addresses without a runtime's call that the agent served: what a plugin
 * attached without it, what was registered over the API, and what an agent that was killed had no time to note.
 */
import { assignmentsOf, type HistoryEntry, type HistoryWriter, readHistory } from "../../handover/history.ts";
import { type EndpointRecord, isCommitted } from "../../handover/record.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { EndpointManager } from "./manager.ts";

export type History = Pick<HistoryWriter, "note">;

/** Says whose an entry is. */
export function aboutRecord({ attachment, pod, addresses }: Pick<EndpointRecord, "attachment" | "pod" | "addresses">) {
  const { network, containerId, ifname } = attachment;
  return { network, containerId, ifname, pod, addresses: addresses.map(({ address }) => address) };
}

export function noteEndpoints(endpoints: Pick<EndpointManager, "onChange">, history: History, clock: Pick<Clock, "date">): void {
  endpoints.onChange((event, { record }) => {
    const isRegistered = record.request?.call === undefined;
    if (event === "adopted") history.note(assigned(record, "it was attached without the agent"));
    else if (event === "ready" && isRegistered) history.note(assigned(record, "it was registered over the API"));
    else if (event === "gone" && isRegistered && record.committedAt !== undefined) {
      const time = clock.date().toISOString();
      history.note({ time, event: "released", outcome: "ok", ...aboutRecord(record), since: record.committedAt, steps: [] });
    }
  });
}

/** Notes the endpoints that are there and of which the history does not say so: an agent may be killed between the two. */
export function noteRestored(directory: string, records: readonly EndpointRecord[], history: History): void {
  const committed = records.filter(isCommitted);
  if (committed.length === 0) return;
  const known = new Set(assignmentsOf(readHistory(directory)).flatMap((one) => (one.until === undefined ? [one.containerId] : [])));
  const unknown = committed.filter(({ attachment }) => !known.has(attachment.containerId));
  history.note(...unknown.map((record) => assigned(record, "it was there when the agent began")));
}

function assigned(record: EndpointRecord, message: string): HistoryEntry {
  const time = record.committedAt ?? record.createdAt;
  return { time, event: "assigned", outcome: "ok", ...aboutRecord(record), steps: [], message };
}
