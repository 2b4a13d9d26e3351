/** Shows a report as one screen: groups, a mark for each finding, and below what failed its next step. */
import { count } from "../../../doctor/problem.ts";
import { type CheckResult, type Report, summary } from "../../../doctor/report.ts";
import { type Colors, oneLine, type Terminal } from "../terminal.ts";

export function printReport(terminal: Terminal, report: Report): void {
  const { bold, dim } = terminal.colors;
  let group = "";
  for (const result of report.results) {
    if (result.group !== group) terminal.out(bold(result.group));
    group = result.group;
    for (const line of linesOf(result, terminal.colors)) terminal.out(line);
  }
  const { ok, warning, failed, skipped } = summary(report);
  const parts = [`${count(failed, "check")} failed`, count(warning, "warning"), `${ok} well`, `${skipped} not looked at`];
  terminal.out(`${bold(report.host)}  ${parts.join(", ")}  ${dim(`tortiectl ${report.version}`)}`);
}

function linesOf({ check, status, object, message, word, next }: CheckResult, { green, yellow, red, dim }: Colors): readonly string[] {
  const mark = { ok: green("✓"), warning: yellow("!"), failed: red("✗"), skipped: dim("-") }[status];
  const text = oneLine(`${check.padEnd(18)} ${object}: ${message}`);
  const line = `  ${mark} ${status === "skipped" ? dim(text) : text}`;
  if (next === undefined) return [line];
  return [line, `      ${dim("next")}  ${oneLine(next)}${word === undefined ? "" : ` ${dim(`(${word})`)}`}`];
}
