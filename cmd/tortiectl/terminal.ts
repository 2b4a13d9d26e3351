/** What a person sees: plain text, coloured only where somebody looks (a terminal) and has not asked otherwise (NO_COLOR). */
import picocolors from "picocolors";

export type Colors = ReturnType<typeof picocolors.createColors>;

/** Where a command writes: results on `out`, remarks and errors on `err`. */
export interface Terminal {
  out(line: string): void;
  err(line: string): void;
  readonly colors: Colors;
}

/** The process's own streams. */
export function processTerminal(): Terminal {
  return {
    out: (line) => void process.stdout.write(`${line}\n`),
    err: (line) => void process.stderr.write(`${line}\n`),
    colors: picocolors.createColors(wantsColor(process.env, process.stdout.isTTY === true)),
  };
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
