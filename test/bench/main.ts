/**
 * `npm run bench`: tortie against the smallest reference plugins, `ptp` with `host-local`, in the same namespaces and in one run.
 * Calls of the two alternate, so that the machine's noise falls on both; only ratios mean anything.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Contender, measure, measurePeak, type Sample } from "./contender.ts";
import { fillPool, reportFill } from "./fill-pool.ts";
import { row, summarise } from "./statistics.ts";
import { reportSteps } from "./step-times.ts";

const ROUNDS = 40;
const BURST = 60;
const BURST_ROUNDS = 5;
const PEAK_ROUNDS = 5;
const WIDTHS = [52, 9, 9, 9];

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
const bin = resolve("dist/bin");

const tortie: Contender = {
  name: "tortie",
  executable: join(bin, "tortie"),
  path: bin,
  netconf: JSON.stringify({
    cniVersion: "1.0.0",
    name: "bench",
    type: "tortie",
    datastore_type: "local",
    datastore_path: join(directory, "tortie.db"),
    ipam_lock_file: join(directory, "ipam.lock"),
    nodename: "bench-node",
    ipam: { type: "tortie-ipam", pools: [{ cidr: "10.98.0.0/16" }] },
  }),
};
const peer: Contender = {
  name: "ptp + host-local",
  executable: "/usr/lib/cni/ptp",
  path: "/usr/lib/cni",
  netconf: JSON.stringify({
    cniVersion: "1.0.0",
    name: "peer",
    type: "ptp",
    ipam: { type: "host-local", subnet: "10.97.0.0/16", dataDir: join(directory, "host-local") },
  }),
};

interface Series {
  readonly add: Sample[];
  readonly del: Sample[];
}

const namespaces = Array.from({ length: BURST }, (_, i) => `bench-${process.pid}-${i}`);
try {
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  const single = await oneAtATime();
  const burst = await allAtOnce();
  report(single, burst, await peaks());
  reportFill(await fillPool(join(directory, "fill.db")));
} finally {
  for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true, force: true });
}

async function oneAtATime(): Promise<Map<Contender, Series>> {
  const series = new Map<Contender, Series>([
    [tortie, { add: [], del: [] }],
    [peer, { add: [], del: [] }],
  ]);
  for (let round = 0; round < ROUNDS + 2; round++) {
    for (const [contender, samples] of series) {
      const call = { containerId: `${round}-one`, netns: `/run/netns/${namespaces[0]}` };
      const add = await measure(contender, { ...call, command: "ADD" });
      const del = await measure(contender, { ...call, command: "DEL" });
      // The first two rounds warm the page cache and make the datastore.
      if (round >= 2) {
        samples.add.push(add);
        samples.del.push(del);
      }
    }
  }
  return series;
}

interface BurstSeries extends Series {
  readonly addWall: number[];
  readonly delWall: number[];
}

async function allAtOnce(): Promise<Map<Contender, BurstSeries>> {
  const series = new Map<Contender, BurstSeries>([
    [tortie, { add: [], del: [], addWall: [], delWall: [] }],
    [peer, { add: [], del: [], addWall: [], delWall: [] }],
  ]);
  for (let round = 0; round < BURST_ROUNDS; round++) {
    for (const [contender, samples] of series) {
      for (const command of ["ADD", "DEL"] as const) {
        const start = performance.now();
        const done = await Promise.all(
          namespaces.map((name, i) =>
            measure(contender, {
              command,
              containerId: `${round}-${i}-burst`,
              netns: `/run/netns/${name}`,
            }),
          ),
        );
        const wall = performance.now() - start;
        (command === "ADD" ? samples.addWall : samples.delWall).push(wall);
        (command === "ADD" ? samples.add : samples.del).push(...done);
      }
    }
  }
  return series;
}

/** Largest peak of a few calls, MiB. */
async function peaks(): Promise<Map<Contender, { add: number; del: number }>> {
  const found = new Map<Contender, { add: number; del: number }>();
  for (const contender of [tortie, peer]) {
    const peak = { add: 0, del: 0 };
    for (let round = 0; round < PEAK_ROUNDS; round++) {
      const call = { containerId: `${round}-peak`, netns: `/run/netns/${namespaces[0]}` };
      peak.add = Math.max(peak.add, await measurePeak(contender, { ...call, command: "ADD" }));
      peak.del = Math.max(peak.del, await measurePeak(contender, { ...call, command: "DEL" }));
    }
    found.set(contender, peak);
  }
  return found;
}

function report(
  single: Map<Contender, Series>,
  burst: Map<Contender, BurstSeries>,
  peak: Map<Contender, { readonly add: number; readonly del: number }>,
): void {
  console.log(row(["milliseconds", "p50", "p95", "max"], WIDTHS));
  for (const [title, series] of [
    [`one at a time (${ROUNDS})`, single],
    [`${BURST} at once (${BURST_ROUNDS} rounds)`, burst],
  ] as const) {
    for (const command of ["add", "del"] as const) {
      for (const [contender, samples] of series) {
        const { p50, p95, max } = summarise(samples[command].map(({ ms }) => ms));
        console.log(row([`${title} ${command.toUpperCase()} ${contender.name}`, p50, p95, max], WIDTHS));
      }
    }
  }
  console.log("\nratios, tortie / peer, of this run");
  const ratio = (of: (contender: Contender) => number) => of(tortie) / of(peer);
  const p50 = (series: Map<Contender, Series>, command: "add" | "del") => (contender: Contender) =>
    summarise((series.get(contender)?.[command] ?? []).map(({ ms }) => ms)).p50;
  const wall = (command: "addWall" | "delWall") => (contender: Contender) => summarise(burst.get(contender)?.[command] ?? []).p50;
  console.log(`  ADD, one at a time, median       ${ratio(p50(single, "add")).toFixed(2)}`);
  console.log(`  DEL, one at a time, median       ${ratio(p50(single, "del")).toFixed(2)}`);
  console.log(`  ${BURST} ADDs at once, whole burst      ${ratio(wall("addWall")).toFixed(2)}`);
  console.log(`  ${BURST} DELs at once, whole burst      ${ratio(wall("delWall")).toFixed(2)}`);

  console.log(`\npeak memory of a process, MiB (largest of ${PEAK_ROUNDS})`);
  for (const [{ name }, { add, del }] of peak) console.log(`  ${name.padEnd(18)} ADD ${add.toFixed(1)}  DEL ${del.toFixed(1)}`);

  reportSteps("ADD", single.get(tortie)?.add ?? []);
}
