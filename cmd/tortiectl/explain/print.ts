/** Prints an explanation for people: the sentence first, what is wrong next, then everything that was looked up. */
import type {
  ExplainedAddress,
  ExplainedAttachment,
  ExplainedEnd,
  Explanation,
  HistoryEntry,
} from "../../../doctor/explain/explanation.ts";
import { ownerOf } from "../../../doctor/explain/facts.ts";
import type { CheckResult } from "../../../doctor/report.ts";
import { columns, oneLine, type Terminal } from "../terminal.ts";

/** Limits how much of a history is shown without --json. */
const SHOWN_HISTORY = 20;

export function printExplanation(explanation: Explanation, terminal: Terminal): void {
  const { bold, dim } = terminal.colors;
  const { summary, attachments, addresses, results, history, word, next } = explanation;
  terminal.out(bold(oneLine(summary)));
  if (word !== undefined) terminal.out(`  code  ${word.code}`);
  for (const one of results) printResult(one, terminal);
  terminal.out(`${dim("next")}  ${oneLine(next)}`);
  for (const attachment of attachments) printAttachment(attachment, terminal);
  for (const address of addresses) printSection(`address ${address.address}`, addressRows(address), terminal);
  if (history.length === 0) return;
  terminal.out(bold("history"));
  for (const entry of history.slice(0, SHOWN_HISTORY)) printEntry(entry, terminal);
}

/** Prints one result as ✓, ! or ✗ with its next step. */
export function printResult({ status, object, message, word, next }: CheckResult, { out, colors }: Terminal): void {
  const marks = { ok: colors.green("✓"), warning: colors.yellow("!"), failed: colors.red("✗"), skipped: colors.dim("-") };
  out(`${marks[status]} ${oneLine(object)}: ${oneLine(message)}${word === undefined ? "" : colors.dim(` (${word})`)}`);
  if (next !== undefined && status !== "ok") out(`  ${colors.dim("next")}  ${oneLine(next)}`);
}

function printSection(title: string, rows: readonly (readonly string[])[], { out, colors }: Terminal): void {
  out(colors.bold(title));
  for (const line of columns(rows.map((row) => row.map(oneLine)))) out(line);
}

function printAttachment(attachment: ExplainedAttachment, terminal: Terminal): void {
  const { containerId, ifname, network, state, since, netns, hostEnd, podEnd, mtu, endpoint } = attachment;
  const uplink = mtu?.uplink;
  const rows = [
    ["container", containerId],
    ["network", `${network}, interface ${ifname}`],
    ["state", endpoint === undefined ? state : `${state}, endpoint ${endpoint}`],
    ...(since === undefined ? [] : [["since", since]]),
    ["addresses", attachment.addresses.join(", ") || "none"],
    ...(hostEnd === undefined ? [] : [["host end", endText(hostEnd)]]),
    ...(podEnd === undefined ? [] : [["pod end", endText(podEnd)]]),
    ["sandbox", netns ?? "not known"],
    ...(uplink === undefined ? [] : [["uplink", `${uplink.name}, MTU ${uplink.mtu}`]]),
    ...attachment.routes.map(({ side, wanted, found }) => [`${side} route`, found === undefined ? wanted : `${wanted}: found ${found}`]),
    ...attachment.sysctls.map(({ path, wanted, found }) => [
      "setting",
      `${path} = ${found}${found === wanted ? "" : `, wanted ${wanted}`}`,
    ]),
    ...attachment.rules.map(({ place, message }) => ["rules", `${place} ${message}`]),
    ...attachment.chained.map(({ by, place, message }) => [by, `${place} ${message}`]),
    ...Object.entries(attachment.annotations).map(([name, value]) => ["annotation", `${name}: ${value}`]),
  ];
  printSection(ownerOf(attachment), rows, terminal);
}

function endText({ name, state, mac, mtu }: ExplainedEnd): string {
  return [name, state, ...(mac === undefined || mac === "" ? [] : [mac]), ...(mtu === undefined ? [] : [`MTU ${mtu}`])].join(", ");
}

function addressRows({ standing, pool, block, blockOwner, handle, since, freeAgain, why }: ExplainedAddress) {
  const facts = { standing, pool, block, "block of": blockOwner, handle, since, "free again": freeAgain, why };
  return Object.entries(facts).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
}

function printEntry(entry: HistoryEntry, { out, colors }: Terminal): void {
  const { time, event, outcome, pod, containerId, addresses, milliseconds, steps, message, word } = entry;
  const mark = outcome === "ok" ? "" : outcome === "failed" ? colors.red(" failed") : colors.yellow(" warning");
  const who = pod ?? (containerId === undefined ? "" : `container ${containerId.slice(0, 13)}`);
  const facts = [who, addresses.join(", "), milliseconds === undefined ? "" : `${milliseconds} ms`].filter((one) => one !== "").join("  ");
  out(`  ${time}  ${event}${mark}  ${oneLine(facts)}`.trimEnd());
  if (message !== undefined) out(`    ${oneLine(message)}${word === undefined ? "" : colors.dim(` (${word})`)}`);
  if (steps.length > 0) out(colors.dim(`    ${oneLine(steps.map(({ name, milliseconds: took }) => `${name} ${took}`).join(", "))}`));
}
