/** Defines the form in which everything that judges a host or a cluster answers, so that one screen, one page and one archive show it. */
import type { ErrorWord } from "../lib/errors/errors.ts";

/** `skipped`: it could not be looked at here, and the message says why. */
export type CheckStatus = "ok" | "warning" | "failed" | "skipped";

export interface CheckResult {
  /** Heads the rows that belong together: "host", "plugins", "agent", "addresses", … */
  readonly group: string;
  /** Names the question in kebab-case; docs/reference/doctor.md has a row for each. */
  readonly check: string;
  readonly status: CheckStatus;
  /** Says on which object: "interface cali0123456789a", "/etc/cni/net.d/10-tortie.conflist", "node n1". */
  readonly object: string;
  /** Says what is so, or what is wrong, in one sentence. */
  readonly message: string;
  /** Is a word of docs/reference/errors.md, or of the check that this result repeats. */
  readonly word?: string;
  /** Says what to do next; always there when the check failed. */
  readonly next?: string;
}

export interface Report {
  /** RFC 3339. */
  readonly time: string;
  readonly host: string;
  readonly version: string;
  readonly results: readonly CheckResult[];
}

/** Is what a check finds before its place in the table is known. */
export type Finding = Omit<CheckResult, "group" | "check">;

/** Gives a finding its place in the table. */
export function result(group: string, check: string, finding: Finding): CheckResult {
  return { group, check, ...finding };
}

/** Says that all is well with an object. */
export function well(object: string, message: string): Finding {
  return { status: "ok", object, message };
}

/** Says that the check could not be made, and why. */
export function skipped(object: string, why: string): Finding {
  return { status: "skipped", object, message: why };
}

/** Has what a finding says beside its object and sentence. */
interface Advice {
  readonly next: string;
  readonly word?: ErrorWord | (string & {}) | undefined;
}

/** Says that pods lack something. */
export function failed(object: string, message: string, { next, word }: Advice): Finding {
  return { status: "failed", object, message, ...(word !== undefined && { word }), next };
}

/** Says that something is otherwise than might be expected, though pods have a network. */
export function warned(object: string, message: string, { next, word }: Advice): Finding {
  return { status: "warning", object, message, ...(word !== undefined && { word }), next };
}

/** Counts the results of each status. */
export function summary({ results }: Pick<Report, "results">): Readonly<Record<CheckStatus, number>> {
  const counts = { ok: 0, warning: 0, failed: 0, skipped: 0 };
  for (const { status } of results) counts[status] += 1;
  return counts;
}

/** @returns 1 when something failed, else 0 */
export function exitStatus({ results }: Pick<Report, "results">): 0 | 1 {
  return results.some(({ status }) => status === "failed") ? 1 : 0;
}
