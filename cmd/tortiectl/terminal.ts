/** Output for people: plain text, coloured only on a terminal and unless NO_COLOR is set. */
import picocolors from "picocolors";
import type { CommandModule } from "yargs";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import { type ErrorWord, messageOf, namingPrivilege, TortieError } from "../../lib/errors/errors.ts";
import { escapeControlsInLines } from "../../lib/log/format.ts";

export type Colors = ReturnType<typeof picocolors.createColors>;

/** Where a command writes: results on `out`, remarks and errors on `err`. */
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
}

export const NO_COLORS: Colors = picocolors.createColors(false);

/** The process's own streams. */
export function processTerminal(): Terminal {
  return {
    out: (line) => void process.stdout.write(`${harmless(line)}\n`),
    err: (line) => void process.stderr.write(`${harmless(line)}\n`),
    // ECMA-48: back to the first column, and the line erased.
    ...(process.stderr.isTTY === true && { redraw: (line: string) => void process.stderr.write(`\r\x1b[K${harmless(line)}`) }),
    // ECMA-48: the cursor to the first line, and everything behind it erased.
    ...(process.stdout.isTTY === true && { clear: () => void process.stdout.write("\x1b[H\x1b[2J") }),
    ...(process.stdout.isTTY === true && { columns: process.stdout.columns }),
    colors: picocolors.createColors(wantsColor(process.env, process.stdout.isTTY === true)),
  };
}

/** Bold, dim and the plain colours with their ends, as picocolors writes them (ECMA-48, 8.3.117): none of them hides or moves text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
const COLOR = /(\x1b\[(?:1|2|22|3[1-6]|39)m)/;

/**
 * A text as it may be written to a terminal: objects of a datastore and answers of plugins come from others, and control characters in them
 * would act on the administrator's terminal. Colours, line ends and tabs stay.
 */
export function harmless(text: string): string {
  // A capturing group: every other part is a colour.
  return text
    .split(COLOR)
    .map((part, index) => (index % 2 === 1 ? part : escapeControlsInLines(part)))
    .join("");
}

/** https://no-color.org and https://force-color.org: set and not empty counts. picocolors' own rule also colours whatever runs under CI. */
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

/** What a subcommand gets: where to write, and how to say its exit status. */
export interface CommandContext {
  readonly terminal: Terminal;
  finish(status: number): void;
}

/** Gives a command the types of the options that its builder declares. */
export function command<T>(module: CommandModule<object, T>): CommandModule<object, T> {
  return module;
}

/** Words that say that the command line is at fault, not what it was about. */
const USAGE_WORDS: readonly ErrorWord[] = ["subcommand-unknown", "argument-missing", "option-invalid"];

/** @returns the exit status: 2 for what is wrong with the command line, else 1 */
export function reportError(terminal: Terminal, thrown: unknown): number {
  const error = namingPrivilege(isDatastoreFailure(thrown, "unauthorized") ? unauthorized(thrown) : thrown);
  const [word, next] = error instanceof TortieError ? [error.word, error.next] : [];
  if (terminal.json === true) printError(terminal, { word: word ?? null, message: messageOf(error), next: next ?? null });
  else {
    const { bold, red, dim } = terminal.colors;
    terminal.err(`${red("tortiectl:")} ${bold(messageOf(error))}`);
    if (word !== undefined) terminal.err(`  ${dim("next")}  ${next} ${dim(`(${word})`)}`);
    else if (error instanceof Error && error.stack !== undefined) terminal.err(dim(error.stack));
  }
  return word !== undefined && USAGE_WORDS.includes(word) ? 2 : 1;
}

/** The caller may choose another account, which a plugin cannot. */
function unauthorized(error: Error): TortieError {
  return new TortieError("datastore-unauthorized", error.message, {
    cause: error,
    next: "give a --kubeconfig whose account has that right; docs/reference/rights.md lists what each command needs",
  });
}

/** An error as a program reads it; a word or a next step that is not known is null. */
interface ErrorAsJson {
  readonly word: string | null;
  readonly message: string;
  readonly next: string | null;
}

/** The one document on standard output when JSON is asked for and there is nothing but an error. */
export function printError(terminal: Terminal, error: ErrorAsJson): void {
  terminal.out(JSON.stringify({ error }, undefined, 2));
}

/** The command line itself is wrong: exit status 2. */
export class UsageError extends Error {}

/** Of an option that is given in seconds. @throws TortieError `option-invalid` */
export function milliseconds(option: string, seconds: number): number {
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000;
  throw new TortieError("option-invalid", `--${option} wants a number of seconds`);
}

/** What standard input is called in findings; a list from there has no folder of further plugins beside it. */
export const STANDARD_INPUT = "/dev/stdin";

/** The option of every command that prints something. */
export const JSON_OUTPUT = { type: "boolean", default: false, describe: "Print JSON" } as const;
