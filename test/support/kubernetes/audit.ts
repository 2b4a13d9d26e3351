/** The API server's audit log and its own counters: what was asked of it, in order, by whom. */
import { readFileSync, statSync } from "node:fs";

export interface AuditedRequest {
  /** As Kubernetes authorises it: get, list, create, update, patch, delete, deletecollection, watch. */
  readonly verb: string;
  /** Path and query as they were sent. */
  readonly uri: string;
  readonly user: string;
  readonly userAgent: string;
  readonly status: number;
  /** Microseconds since 1970, when the server received it. */
  readonly receivedUs: number;
}

/** Size of the log now: a mark for `readAudit`. */
export function auditSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** The requests whose lines were written behind byte `since`, by the time they arrived. */
export function readAudit(path: string, since: number): readonly AuditedRequest[] {
  if (auditSize(path) === 0) return [];
  const lines = readFileSync(path).subarray(since).toString().split("\n");
  // The last one is empty, or not written to its end yet.
  return lines
    .slice(0, -1)
    .map(toRequest)
    .sort((a, b) => a.receivedUs - b.receivedUs);
}

function toRequest(line: string): AuditedRequest {
  const event: AuditEvent = JSON.parse(line);
  return {
    verb: event.verb,
    uri: event.requestURI,
    user: event.user.username ?? "",
    userAgent: event.userAgent ?? "",
    status: event.responseStatus?.code ?? 0,
    receivedUs: microseconds(event.requestReceivedTimestamp),
  };
}

/** What is used of audit.k8s.io/v1 Event. */
interface AuditEvent {
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username?: string };
  readonly userAgent?: string;
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
}

/** RFC 3339 with six digits of a second. */
function microseconds(time: string): number {
  const fraction = /\.(\d+)Z$/.exec(time)?.[1] ?? "";
  return Math.floor(Date.parse(time) / 1000) * 1_000_000 + Number(fraction.padEnd(6, "0").slice(0, 6));
}

/**
 * The server's own counters (`apiserver_request_total`) as "GET crd.projectcalico.org/ippools" → count; the core group has no name:
 * "PATCH pods/status". Watches, and what the server's own leases cost, are left out.
 */
export function parseRequestCounts(metrics: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const [, labels = "", value = "0"] of metrics.matchAll(/^apiserver_request_total\{([^}]*)\} (\S+)$/gm)) {
    const {
      verb = "",
      group = "",
      resource = "",
      subresource = "",
    } = Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = "", text = ""]) => [key, text]));
    if (verb === "WATCH" || resource === "" || group === "coordination.k8s.io") continue;
    const key = `${verb} ${group === "" ? "" : `${group}/`}${resource}${subresource === "" ? "" : `/${subresource}`}`;
    counts.set(key, (counts.get(key) ?? 0) + Number(value));
  }
  return counts;
}

/** What was asked between two looks at the counters. */
export function countsBetween(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  return new Map([...after].map(([key, count]) => [key, count - (before.get(key) ?? 0)] as const).filter(([, count]) => count !== 0));
}
