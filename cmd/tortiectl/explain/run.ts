/** Runs `tortiectl explain`. */
import type { Subject } from "../../../doctor/explain/explanation.ts";
import { exitStatus } from "../../../doctor/report.ts";
import { reportError, type Terminal } from "../terminal.ts";
import { explainHere } from "./explain-here.ts";
import { printExplanation } from "./print.ts";
import type { HereOptions } from "./sources.ts";

/** @returns exit status: 1 where something is wrong with the subject, or nothing is known of it */
export async function runExplain(subject: Subject, options: HereOptions, terminal: Terminal): Promise<number> {
  try {
    const explanation = await explainHere(subject, options);
    if (options.json) terminal.out(JSON.stringify(explanation, undefined, 2));
    else printExplanation(explanation, terminal);
    return explanation.standing === "absent" ? 1 : exitStatus(explanation);
  } catch (error) {
    return reportError(terminal, error);
  }
}
