/** The tables of `npm run bench -- --kubernetes`. Calico's figures are of a machine like ours (2 cores), against the same server. */
import type { Sample } from "../contender.ts";
import { row, summarise } from "../statistics.ts";
import type { Burst, BurstSeries } from "./bursts.ts";
import type { Cost } from "./costs.ts";
import type { Single } from "./single.ts";

const WIDTHS = [44, 9, 9, 9, 12];
/** Milliseconds for an operation; for 60 at once, of the whole burst. */
const CALICO = { add: 250, del: 280, bursts: new Map([[60, { add: 13_000, del: 11_500 }]]) };

export function reportSingle(single: Single, busy: Single, peak: { readonly add: number; readonly del: number }): void {
  console.log(row(["milliseconds", "p50", "p95", "max", "Calico p50"], WIDTHS));
  for (const [{ rounds, tortie, floor }, when] of [
    [single, "one at a time"],
    [busy, "after a write"],
  ] as const) {
    for (const command of ["add", "del"] as const) {
      const name = `${when} (${rounds}) ${command.toUpperCase()}`;
      console.log(row([`${name} tortie`, ...times(tortie[command]), when === "one at a time" ? CALICO[command] : ""], WIDTHS));
      console.log(row([`${name} floor`, ...times(floor[command])], WIDTHS));
    }
  }
  console.log("\nratios of the medians of this run, one at a time");
  for (const command of ["add", "del"] as const) {
    const [ours, floors] = [p50(single.tortie[command]), p50(single.floor[command])];
    const label = command.toUpperCase();
    console.log(`  ${label}, tortie / floor               ${(ours / floors).toFixed(2)}`);
    console.log(`  ${label}, tortie / Calico              ${(ours / CALICO[command]).toFixed(2)}   (${CALICO[command]} ms, another run)`);
  }
  console.log(`\npeak memory of a process, MiB            ADD ${peak.add.toFixed(1)}  DEL ${peak.del.toFixed(1)}   (Calico 78)`);
}

export function reportBursts(bursts: readonly Burst[]): void {
  console.log(`\n${row(["at once: ms a call", "p50", "p95", "max", "failed"], WIDTHS)}`);
  for (const burst of bursts) {
    for (const command of ["add", "del"] as const) {
      const { samples, failures } = burst[command];
      console.log(row([`${title(burst, command)}`, ...times(samples), String(failures.length)], WIDTHS));
    }
  }
  console.log(`\n${row(["at once: seconds for all", "p50", "", "max", "Calico"], WIDTHS)}`);
  for (const burst of bursts) {
    for (const command of ["add", "del"] as const) {
      const { p50: median, max } = summarise(burst[command].walls);
      const calico = CALICO.bursts.get(burst.size)?.[command];
      console.log(row([title(burst, command), median / 1000, "", max / 1000, calico === undefined ? "" : calico / 1000], WIDTHS));
    }
  }
  for (const series of bursts.flatMap(({ add, del }): readonly BurstSeries[] => [add, del])) {
    for (const failure of new Set(series.failures)) console.log(`  FAILED ${failure}`);
  }
}

export function reportCosts(costs: readonly Cost[]): void {
  console.log(`\n${row(["the server's own count, an operation", "metrics", "audit", "connects"], WIDTHS)}`);
  for (const { title: name, requests, audited, connections } of costs) {
    const sum = [...requests.values()].reduce((total, count) => total + count, 0);
    console.log(row([name, sum, audited, connections], WIDTHS));
    for (const [request, count] of requests) console.log(row([`  ${request}`, count], WIDTHS));
  }
}

function title({ size, rounds }: Burst, command: "add" | "del"): string {
  return `${size} at once (${rounds} rounds) ${command.toUpperCase()}`;
}

function times(samples: readonly Sample[]): readonly number[] {
  const { p50: median, p95, max } = summarise(samples.map(({ ms }) => ms));
  return [median, p95, max];
}

function p50(samples: readonly Sample[]): number {
  return summarise(samples.map(({ ms }) => ms)).p50;
}
