/** Runs a table of checks in its order, so that one that cannot look keeps no other from looking. */
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, namingFault, TortieError } from "../lib/errors/errors.ts";
import { type CheckResult, type Finding, failed, result, skipped } from "./report.ts";

type Findings = readonly Finding[];

/** Asks one question. `V` has what can be seen. */
export interface Check<V> {
  readonly group: string;
  readonly check: string;
  /** Names what is looked at where looking fails. */
  readonly object: string;
  /** @returns one finding an object; none: there is nothing to look at, and the report has no row */
  readonly look: (view: V) => Findings | Promise<Findings>;
}

/** Writes one row of a table of checks. */
export function row<V>(group: string, check: string, object: string, look: Check<V>["look"]): Check<V> {
  return { group, check, object, look };
}

/** Ends a check that this user, or this cluster, leaves without an answer. */
export class NotLooked extends Error {
  readonly finding: Finding;

  constructor(finding: Finding) {
    super(finding.message);
    this.finding = finding;
  }
}

export async function runChecks<V>(table: readonly Check<V>[], view: V): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const { group, check, object, look } of table) {
    const findings = await answered(object, () => look(view));
    results.push(...findings.map((finding) => result(group, check, finding)));
  }
  return results;
}

async function answered(object: string, look: () => Findings | Promise<Findings>): Promise<Findings> {
  try {
    return await look();
  } catch (thrown) {
    return [couldNotLook(object, namingFault(thrown))];
  }
}

/** Tells what nobody could see for want of privilege from what is broken. */
function couldNotLook(object: string, error: unknown): Finding {
  if (error instanceof NotLooked) return error.finding;
  if (!(error instanceof TortieError)) {
    return failed(object, `it cannot be looked at: ${messageOf(error)}`, { next: "look at what the message names, then ask again" });
  }
  const { word, message, next } = error;
  if (word === "privilege-missing" || isDatastoreFailure(error, "unauthorized"))
    return { ...skipped(object, `this user may not look: ${message}`), word, next };
  return failed(object, message, { word, next });
}

const MOST = 10;

/** Keeps the screen one screen: of many findings of one check the gravest come first, and the rest are counted. */
export function abridged(findings: Findings, object: string): Findings {
  const order = ["failed", "warning", "skipped", "ok"];
  const sorted = findings.toSorted((a, b) => order.indexOf(a.status) - order.indexOf(b.status));
  const [first, rest] = [sorted.slice(0, MOST), sorted.slice(MOST)];
  const [next] = rest;
  if (next === undefined) return first;
  return [...first, { ...next, object, message: `and ${rest.length} more` }];
}
