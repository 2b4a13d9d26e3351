/** Finds bursts of ADDs and what each of them took (pure), by the history with its steps. */

import type { HistoryEntry } from "../doctor/explain/explanation.ts";

export interface Step {
  readonly name: string;
  readonly milliseconds: number;
}

/** Is one ADD, as a bar of a waterfall. */
export interface Bar {
  readonly key: string;
  readonly name: string;
  readonly beginMs: number;
  readonly steps: readonly Step[];
  readonly totalMs: number;
  readonly outcome: "ok" | "warning" | "failed";
}

export interface Burst {
  readonly beginMs: number;
  readonly endMs: number;
  readonly bars: readonly Bar[];
}

/** ADDs that begin this soon after another belong together. */
const TOGETHER_MS = 2_000;

/** @returns bursts, the newest first, each with its bars in the order of their beginnings */
export function burstsOf(bars: readonly Bar[]): readonly Burst[] {
  const sorted = [...bars].sort((one, other) => one.beginMs - other.beginMs);
  const groups: Bar[][] = [];
  for (const bar of sorted) {
    const group = groups.at(-1);
    const before = group?.at(-1);
    if (group !== undefined && before !== undefined && bar.beginMs - before.beginMs <= TOGETHER_MS) group.push(bar);
    else groups.push([bar]);
  }
  return groups.reverse().map((group) => ({
    beginMs: group[0]?.beginMs ?? 0,
    endMs: Math.max(...group.map(({ beginMs, totalMs }) => beginMs + totalMs)),
    bars: group,
  }));
}

/** Reads the ADDs of the history. */
export function barsOfHistory(entries: readonly HistoryEntry[]): readonly Bar[] {
  return entries.flatMap((entry, index): Bar[] => {
    const beginMs = Date.parse(entry.time);
    if (entry.event !== "add" || Number.isNaN(beginMs)) return [];
    const name = entry.pod ?? entry.containerId ?? entry.addresses[0] ?? "";
    const totalMs = entry.milliseconds ?? entry.steps.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
    return [{ key: `${entry.time} ${index}`, name, beginMs, steps: entry.steps, totalMs, outcome: entry.outcome }];
  });
}

/** Chooses round marks for an axis: 1, 2 or 5 times a power of ten apart, six of them at most. */
export function ticksOf(lengthMs: number): readonly number[] {
  const rough = Math.max(lengthMs, 1) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  return Array.from({ length: Math.floor(lengthMs / step) + 1 }, (_, index) => index * step);
}
