/** Where the time of an operation goes, from the plugin's own log. */
import type { Sample } from "./contender.ts";
import { summarise } from "./statistics.ts";

export function reportSteps(command: "ADD" | "DEL", samples: readonly Sample[]): void {
  console.log(`\nwhere the time of one ${command} goes (median of each step, from the plugin's own log)`);
  for (const [step, values] of stepTimes(samples)) {
    console.log(`  ${step.padEnd(27)} ${summarise(values).p50.toFixed(2).padStart(7)} ms`);
  }
}

/**
 * The last log line of each operation: `steps_ms="plan=0.4 ipam=2.1" total_ms=9.8`. The steps begin when the log does; the total begins with the
 * process, and what the caller waited beyond it was spent by the kernel: exec, loading, and taking the process apart.
 */
function stepTimes(samples: readonly Sample[]): Map<string, number[]> {
  const times = new Map<string, number[]>();
  const add = (step: string, milliseconds: number) => times.set(step, [...(times.get(step) ?? []), milliseconds]);
  for (const { ms, stderr } of samples) {
    const [, steps, total] = /steps_ms="([^"]*)" total_ms=([\d.]+)\s*$/.exec(stderr) ?? [];
    if (steps === undefined) throw new Error(`the log names no steps: ${stderr}`);
    let inside = 0;
    for (const [, step = "", text] of steps.matchAll(/(\w+)=([\d.]+)/g)) {
      inside += Number(text);
      add(step, Number(text));
    }
    add("start and reading the call", Number(total) - inside);
    add("outside of the program", ms - Number(total));
  }
  return times;
}
