/** The bars that the project has set itself, each with what this run measured: one row each, at the end of a bench's output. */
import { loadavg } from "node:os";
import { row } from "./statistics.ts";

export interface Bar {
  readonly name: string;
  /** The most that it may be. */
  readonly most: number;
  /** A text says why this run could not measure it. */
  readonly measured: number | string;
}

const WIDTHS = [74, 9, 9, 8];
/** Of the last minute, before anything of the bench has run: its own bursts make some 10 to 15 of it. */
const [LOAD = Number.NaN] = loadavg();

export function reportBars(title: string, bars: readonly Bar[]): void {
  console.log(`\n${row([title, "measured", "bar", ""], WIDTHS)}`);
  for (const { name, measured, most } of bars) {
    const isKnown = typeof measured === "number";
    const verdict = isKnown ? (measured <= most ? "held" : "MISSED") : measured;
    console.log(row([name, isKnown ? measured : "-", most, verdict], WIDTHS));
  }
  console.log(`load average before this run: ${LOAD.toFixed(1)} (docs/project/benchmarks.md says what others' work does to these figures)`);
}
