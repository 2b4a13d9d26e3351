/** The tables of `npm run bench -- --floor`. */
import type { Sample } from "../contender.ts";
import type { Cost } from "../kubernetes/costs.ts";
import { row, summarise } from "../statistics.ts";
import type { Single } from "./single.ts";

const WIDTHS = [44, 9, 9, 9];

export function reportSingle(single: Single, busy: Single, peak: { readonly add: number; readonly del: number }): void {
  console.log(row(["milliseconds", "p50", "p95", "max"], WIDTHS));
  for (const [{ rounds, tortie, floor }, when] of [
    [single, "one at a time"],
    [busy, "after a write"],
  ] as const) {
    for (const command of ["add", "del"] as const) {
      const name = `${when} (${rounds}) ${command.toUpperCase()}`;
      console.log(row([`${name} tortie`, ...times(tortie[command])], WIDTHS));
      console.log(row([`${name} floor`, ...times(floor[command])], WIDTHS));
    }
  }
  console.log("\nratios of the medians of this run, one at a time");
  for (const command of ["add", "del"] as const) {
    const [ours, floors] = [p50(single.tortie[command]), p50(single.floor[command])];
    console.log(`  ${command.toUpperCase()}, tortie / floor               ${(ours / floors).toFixed(2)}`);
  }
  console.log(`\npeak memory of a process, MiB            ADD ${peak.add.toFixed(1)}  DEL ${peak.del.toFixed(1)}`);
}

export function reportCosts(costs: readonly Cost[]): void {
  console.log(`\n${row(["the server's own count, an operation", "metrics", "audit", "connects"], WIDTHS)}`);
  for (const { title: name, requests, audited, connections } of costs) {
    const sum = [...requests.values()].reduce((total, count) => total + count, 0);
    console.log(row([name, sum, audited, connections], WIDTHS));
    for (const [request, count] of requests) console.log(row([`  ${request}`, count], WIDTHS));
  }
}

function times(samples: readonly Sample[]): readonly number[] {
  const { p50: median, p95, max } = summarise(samples.map(({ ms }) => ms));
  return [median, p95, max];
}

function p50(samples: readonly Sample[]): number {
  return summarise(samples.map(({ ms }) => ms)).p50;
}
