/** Forms of what a command shows: words, wide, JSON, YAML; once, or again whenever it changes. */
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { reportError, type Terminal } from "./terminal.ts";

/** Options of a command that shows a list. */
export const OUTPUT_OPTIONS = {
  output: { alias: "o", choices: ["wide", "json", "yaml"] as const, describe: "Form: more columns, JSON or YAML; default: words" },
  watch: { alias: "w", type: "boolean", default: false, describe: "Show it again whenever it has changed" },
} as const;

export type Output = "words" | "wide" | "json" | "yaml";

/** The form that --output and --json ask for. */
export function outputOf({ output, json }: { readonly output?: string | undefined; readonly json?: unknown }): Output {
  if (json === true || output === "json") return "json";
  return output === "wide" || output === "yaml" ? output : "words";
}

/** @param json the document's text, as the command prints it for JSON */
export async function printDocument(terminal: Terminal, output: "json" | "yaml", json: string): Promise<void> {
  if (output === "json") return terminal.out(json);
  const { parse, stringify } = await import("yaml");
  // JSON is YAML; the sizes of IPv6 pools need more digits than a number has.
  terminal.out(stringify(parse(json, { intAsBigInt: true })).trimEnd());
}

const BETWEEN_LOOKS_MS = 1_000;

/**
 * Runs a command once, or until SIGINT or SIGTERM, printing what it says when that differs from the time before: over it on a terminal,
 * below it elsewhere. What the command says as an error is part of it: the next look may succeed.
 * @returns the exit status of the last look
 */
export async function shown(terminal: Terminal, watches: boolean, show: (terminal: Terminal) => Promise<number>): Promise<number> {
  if (!watches) return show(terminal);
  const end = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => end.abort());
  let [before, status] = ["", 0];
  while (!end.signal.aborted) {
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
    await SYSTEM_CLOCK.sleep(BETWEEN_LOOKS_MS, end.signal);
  }
  return status;
}
