/**
 * Writes output for people: plain text, coloured only on a terminal and unless NO_COLOR is set; also wide, as JSON and as YAML, once or
 * whenever it changes.
 */

import picocolors from "picocolors";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { type ErrorWord, messageOf, namingFault, TortieError } from "../../lib/errors/errors.ts";
import { escapeControlsInLines, excerpt } from "../../lib/log/format.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { writeAll } from "../../lib/system/files.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { Fault } from "../../ui/contract.ts";

export type Colors = ReturnType<typeof picocolors.createColors>;

/** Takes what a command writes: results on `out`, remarks and errors on `err`. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  /** Overwrites the line that it wrote last; absent when the output is not a terminal. */
  readonly redraw?: (line: string) => void;
  /** Empties the screen; absent when results do not go to a terminal. */
  readonly clear?: () => void;
  /** Width, where results go to a terminal. */
  readonly columns?: number;
  readonly colors: Colors;
  /** The command line asks for JSON: errors are told so too. */
  readonly json?: boolean;
  /** Names the program before errors; `tortiectl` when absent. */
  readonly program?: string;
}

export const NO_COLORS: Colors = picocolors.createColors(false);

/** Writes to the process's own streams. */
export function processTerminal(): Terminal {
  return {
    out: (line) => printWhole(`${harmless(line)}\n`),
    err: (line) => void process.stderr.write(`${harmless(line)}\n`),
    // ECMA-48: back to the first column, and the line erased.
    ...(process.stderr.isTTY === true && { redraw: (line: string) => void process.stderr.write(`\r\x1b[K${harmless(line)}`) }),
    // ECMA-48: the cursor to the first line, and everything behind it erased.
    ...(process.stdout.isTTY === true && { clear: () => void process.stdout.write("\x1b[H\x1b[2J") }),
    ...(process.stdout.isTTY === true && { columns: process.stdout.columns }),
    colors: picocolors.createColors(wantsColor(process.env, process.stdout.isTTY === true)),
  };
}

/** An hour: a pager's reader may take a break. */
const READER_LIMIT_MS = 3_600_000;

/** Writes at once: what still waits when the process ends would be lost. A reader that has seen enough is no error. */
function printWhole(text: string): void {
  try {
    writeAll(1, new TextEncoder().encode(text), "standard output", READER_LIMIT_MS);
  } catch (error) {
    if (systemErrorCode(error) !== "EPIPE") throw error;
  }
}

/** Matches bold, dim and the plain colours with their ends, as picocolors writes them (ECMA-48, 8.3.117): none of them hides or moves text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
const COLOR = /(\x1b\[(?:1|2|22|3[1-6]|39)m)/;

/**
 * Makes a text harmless for a terminal: objects of a datastore and answers of plugins come from others, and control characters in them
 * would act on the administrator's terminal. Colours, line ends and tabs stay.
 */
export function harmless(text: string): string {
  // A capturing group: every other part is a colour.
  return text
    .split(COLOR)
    .map((part, index) => (index % 2 === 1 ? part : escapeControlsInLines(part)))
    .join("");
}

/** Makes a remark beside what a command shows. */
export function note({ err, colors }: Terminal, text: string): void {
  err(`${colors.yellow("note:")} ${text}`);
}

/** Longer than a line with four names of 253 characters each, and an explanation. */
const MOST_OF_A_LINE = 4_000;

/** Keeps a text that others have written on the line on which it is printed. */
export function oneLine(text: string): string {
  return excerpt(text, MOST_OF_A_LINE);
}

/**
 * Follows https://no-color.org and https://force-color.org: set and not empty counts. picocolors' own rule also colours whatever runs under
 * CI.
 */
export function wantsColor(environment: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  if ((environment.NO_COLOR ?? "") !== "") return false;
  if ((environment.FORCE_COLOR ?? "") !== "") return true;
  return isTerminal && environment.TERM !== "dumb";
}

/** Rows of cells as aligned columns, two spaces apart, each line indented. Give plain text: colours have no width. */
export function columns(rows: readonly (readonly string[])[], indent = "  "): readonly string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, index) => {
      widths[index] = Math.max(widths[index] ?? 0, cell.length);
    });
  }
  return rows.map(
    (row) =>
      indent +
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
  );
}

/** Lists words that say that the command line is at fault, not what it was about. */
const USAGE_WORDS: readonly ErrorWord[] = ["subcommand-unknown", "argument-missing", "option-invalid"];

/** @returns the exit status: 2 for what is wrong with the command line, else 1 */
export function reportError(terminal: Terminal, thrown: unknown): number {
  const error = namingFault(isDatastoreFailure(thrown, "unauthorized") ? refused(thrown) : thrown);
  const [word, next] = error instanceof TortieError ? [error.word, error.next] : [];
  if (terminal.json === true) printError(terminal, { word: word ?? null, message: messageOf(error), next: next ?? null });
  else {
    const { bold, red, dim } = terminal.colors;
    terminal.err(`${red(`${terminal.program ?? "tortiectl"}:`)} ${bold(messageOf(error))}`);
    if (word !== undefined) terminal.err(`  ${dim("next")}  ${next} ${dim(`(${word})`)}`);
    else if (error instanceof Error && error.stack !== undefined) terminal.err(dim(error.stack));
  }
  return word !== undefined && USAGE_WORDS.includes(word) ? 2 : 1;
}

/** Suggests another account, which the caller may choose and a plugin cannot. */
function refused(error: TortieError): TortieError {
  return new TortieError(error.word, error.message, {
    cause: error,
    next: "give a --kubeconfig whose account has that right; docs/reference/rights.md lists what each command needs",
  });
}

/** Prints the one document on standard output when JSON is asked for and there is nothing but an error. */
export function printError(terminal: Terminal, error: Fault): void {
  terminal.out(JSON.stringify({ error }, undefined, 2));
}

/** Says that the command line itself is wrong: exit status 2. */
export class UsageError extends Error {}

/** Names standard input in findings; a list from there has no folder of further plugins beside it. */
export const STANDARD_INPUT = "/dev/stdin";

/** Is the form in which a command shows what it has found; `wide` has more columns. */
export type Output = "words" | "wide" | "json" | "yaml";

/**
 * Prints a document where JSON or YAML is asked for.
 * @param json makes its text, as the command prints it for JSON
 * @returns whether it was asked for; else the command prints words
 */
export async function printsDocument(terminal: Terminal, output: Output, json: () => string): Promise<boolean> {
  if (output === "yaml") {
    const { parse, stringify } = await import("yaml");
    // JSON is YAML; the sizes of IPv6 pools need more digits than a number has.
    terminal.out(stringify(parse(json(), { intAsBigInt: true })).trimEnd());
  } else if (output === "json") terminal.out(json());
  return output === "yaml" || output === "json";
}

/** @returns a signal that is raised when the process is asked to end, for commands that listen to it */
export function endOfProcess(reason?: Error): AbortSignal {
  const end = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => end.abort(reason));
  return end.signal;
}

const BETWEEN_LOOKS_MS = 1_000;

/**
 * Runs a command once, or until SIGINT or SIGTERM, printing what it says when that differs from the time before: over it on a terminal,
 * below it elsewhere. What the command says as an error is part of it: the next look may succeed.
 * @returns the exit status of the last look
 */
export async function shown(terminal: Terminal, watches: boolean, show: (terminal: Terminal) => Promise<number>): Promise<number> {
  if (!watches) return show(terminal);
  const end = endOfProcess();
  let [before, status] = ["", 0];
  while (!end.aborted) {
    const lines: string[] = [];
    const collect = (line: string) => void lines.push(line);
    const on = { ...terminal, out: collect, err: collect };
    status = await show(on).catch((error: unknown) => reportError(on, error));
    const now = lines.join("\n");
    if (now !== before) {
      terminal.clear?.();
      terminal.out(now);
      before = now;
    }
    await SYSTEM_CLOCK.sleep(BETWEEN_LOOKS_MS, end);
  }
  return status;
}
