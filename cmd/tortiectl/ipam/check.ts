/** Runs `tortiectl ipam check`: names what is wrong, and mends it when asked to. */
import { type CheckOptions as Checking, check, type Repaired, repairAll } from "../../../doctor/check.ts";
import { count, nextStep, type Problem, repairText } from "../../../doctor/problem.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { stringifyJson, type Writable } from "../../../lib/json/value.ts";
import { milliseconds } from "../options.ts";
import type { Terminal } from "../terminal.ts";
import { lockOf, openStore, type StoreOptions } from "./store.ts";

export interface CheckOptions extends StoreOptions {
  readonly repair: boolean;
  readonly strict: boolean;
  /** Seconds. */
  readonly grace: number;
  readonly settle: number;
  readonly lockFile: string | undefined;
}

/** @returns exit status: 1 when a problem stands, notes do not count */
export async function checkStore(options: CheckOptions, terminal: Terminal): Promise<number> {
  const settleMs = milliseconds("settle", options.settle);
  const checking: Checking = {
    nowMs: systemClock.nowMs,
    graceMs: milliseconds("grace", options.grace),
    isStrict: options.strict,
    pause: () => Bun.sleep(settleMs),
  };
  await using store = await openStore(options);
  const { datastore } = store;
  const found = await check(datastore, checking);
  // To the rules, an object that is missing from a list looks like a leak or a loss, so an incomplete list repairs nothing.
  const report =
    options.repair && store.unreadable.size === 0
      ? await repairAll(found, { datastore, clock: systemClock }, checking, lockOf(store, options.lockFile, terminal))
      : { repaired: [], left: found };

  const problems = report.left.filter(({ severity }) => severity === "problem");
  const notes = report.left.filter(({ severity }) => severity === "note");
  const outcome: Outcome = {
    datastore: datastore.description,
    problems,
    notes,
    repaired: report.repaired,
    unreadable: [...store.unreadable],
  };
  if (options.json) terminal.out(stringifyJson(reportJson(outcome), 2));
  else printReport(terminal, outcome);
  return problems.length + outcome.unreadable.length === 0 ? 0 : 1;
}

interface Outcome {
  readonly datastore: string;
  readonly problems: readonly Problem[];
  readonly notes: readonly Problem[];
  readonly repaired: readonly Repaired[];
  /** A message for each object that could not be read. */
  readonly unreadable: readonly string[];
}

function printReport(terminal: Terminal, { datastore, problems, notes, repaired, unreadable }: Outcome): void {
  const { green, red, yellow, bold, dim } = terminal.colors;
  const refusals = new Map<string, string>();
  for (const { problem, outcome } of repaired) {
    if (outcome.outcome === "refused") {
      refusals.set(problem.id, outcome.reason);
      continue;
    }
    const did = outcome.outcome === "gone" ? "nothing: it stands no longer" : repairText(problem.kind);
    terminal.out(`${green("mended  ")} ${bold(problem.object)} ${problem.message}`);
    terminal.out(`${dim("    repair")} ${did} ${dim(`(${problem.kind})`)}`);
  }
  for (const problem of [...problems, ...notes]) {
    const refusal = refusals.get(problem.id);
    terminal.out(`${problem.severity === "note" ? yellow("note    ") : red("problem ")} ${bold(problem.object)} ${problem.message}`);
    if (refusal !== undefined) terminal.out(`${dim("  not mended")} ${refusal}`);
    terminal.out(`${dim("      next")} ${nextStep(problem)} ${dim(`(${problem.kind})`)}`);
  }
  for (const message of unreadable) {
    terminal.out(`${red("problem ")} ${message}`);
    terminal.out(`${dim("      next")} correct or remove that object by hand; until then --repair changes nothing ${dim("(unreadable)")}`);
  }
  const all = problems.length + unreadable.length;
  const also = notes.length === 0 ? "" : `, ${count(notes.length, "note")}`;
  if (all > 0) terminal.out(`${red(count(all, "problem"))}${also} in ${datastore}`);
  else terminal.out(`${green("ok")} ${datastore}: blocks, affinities, handles and endpoints agree${also}`);
}

function reportJson({ datastore, problems, notes, repaired, unreadable }: Outcome): Writable {
  return {
    datastore,
    problems: problems.map(problemJson),
    notes: notes.map(problemJson),
    repaired: repaired.map(({ problem, outcome }) => ({ ...problemJson(problem), ...outcome })),
    unreadable,
  };
}

function problemJson(problem: Problem): { readonly [key: string]: Writable } {
  const { kind, object, message, addresses, isRepairable } = problem;
  return { kind, object, message, addresses, repairable: isRepairable, next: nextStep(problem) };
}
