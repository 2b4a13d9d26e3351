/**
 * `npm run bench -- --etcd`: whole plugin processes on a real etcd and on the local store, alternating in one run, so that the machine's
 * noise falls on both; only ratios mean anything.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { type Contender, measure, type Sample } from "../contender.ts";
import { row, summarise } from "../statistics.ts";
import { reportSteps } from "../step-times.ts";

const ROUNDS = 60;
const BURST = 60;
const BURST_ROUNDS = 3;
const WIDTHS = [52, 9, 9, 9];

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
const bin = resolve("dist/bin");
const RESOURCES = "/calico/resources/v3/projectcalico.org";

interface Series {
  readonly add: Sample[];
  readonly del: Sample[];
}

function contender(name: string, keys: Readonly<Record<string, unknown>>): Contender {
  const common = { cniVersion: "1.0.0", name: "bench", type: "tortie", agent: "off", nodename: "node1", nodename_file_optional: true };
  const netconf = JSON.stringify({ ...common, ipam_lock_file: join(directory, `${name}.lock`), ...keys });
  return { name, executable: join(bin, "tortie"), path: bin, netconf };
}

await using etcd = await startEtcd();
const resource = (plural: string, name: string, spec: object) =>
  etcd.put(`${RESOURCES}/${plural}/${name}`, JSON.stringify({ metadata: { name }, spec }));
await resource("clusterinformations", "default", { datastoreReady: true });
await resource("ippools", "pool", { cidr: "10.98.0.0/16", blockSize: 26 });
await resource("nodes", "node1", {});
const onEtcd = contender("etcd", { datastore_type: "etcdv3", etcd_endpoints: etcd.endpoints, ipam: { type: "tortie-ipam" } });
const local = contender("local", {
  datastore_type: "local",
  datastore_path: join(directory, "tortie.db"),
  ipam: { type: "tortie-ipam", pools: [{ cidr: "10.97.0.0/16" }] },
});
const contenders = [onEtcd, local];
const namespaces = Array.from({ length: BURST }, (_, index) => `bench-${process.pid}-${index}`);
try {
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  report(await oneAtATime(), await allAtOnce());
} finally {
  for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true, force: true });
}

async function oneAtATime(): Promise<ReadonlyMap<Contender, Series>> {
  const series = new Map<Contender, Series>(contenders.map((one) => [one, { add: [], del: [] }]));
  // The first two rounds warm the page cache, and make blocks and the local store.
  for (let round = -2; round < ROUNDS; round++) {
    for (const [one, samples] of series) {
      const call = { containerId: `r${round + 2}`, netns: `/run/netns/${namespaces[0]}` };
      const add = await measure(one, { ...call, command: "ADD" });
      const del = await measure(one, { ...call, command: "DEL" });
      if (round < 0) continue;
      samples.add.push(add);
      samples.del.push(del);
    }
  }
  return series;
}

/** Milliseconds from the first start to the last end. */
async function allAtOnce(): Promise<ReadonlyMap<Contender, Readonly<Record<"ADD" | "DEL", number[]>>>> {
  const series = new Map(contenders.map((one) => [one, { ADD: [] as number[], DEL: [] as number[] }]));
  for (let round = 0; round < BURST_ROUNDS; round++) {
    for (const [one, walls] of series) {
      for (const command of ["ADD", "DEL"] as const) {
        const start = performance.now();
        await Promise.all(
          namespaces.map((name, index) => measure(one, { command, containerId: `b${round}x${index}`, netns: `/run/netns/${name}` })),
        );
        walls[command].push(performance.now() - start);
      }
    }
  }
  return series;
}

function report(single: Awaited<ReturnType<typeof oneAtATime>>, burst: Awaited<ReturnType<typeof allAtOnce>>): void {
  console.log(row(["milliseconds", "p50", "p95", "max"], WIDTHS));
  for (const command of ["add", "del"] as const) {
    for (const [{ name }, samples] of single) {
      const { p50, p95, max } = summarise(samples[command].map(({ ms }) => ms));
      console.log(row([`one at a time (${ROUNDS}) ${command.toUpperCase()} ${name}`, p50, p95, max], WIDTHS));
    }
  }
  const median = (one: Contender, command: "add" | "del") => summarise((single.get(one)?.[command] ?? []).map(({ ms }) => ms)).p50;
  const wall = (one: Contender, command: "ADD" | "DEL") => summarise(burst.get(one)?.[command] ?? []).p50;
  console.log("\nratios, etcd / local, of this run");
  console.log(`  ADD, one at a time, median       ${(median(onEtcd, "add") / median(local, "add")).toFixed(2)}`);
  console.log(`  DEL, one at a time, median       ${(median(onEtcd, "del") / median(local, "del")).toFixed(2)}`);
  console.log(`  ${BURST} ADDs at once, whole burst      ${(wall(onEtcd, "ADD") / wall(local, "ADD")).toFixed(2)}`);
  console.log(`  ${BURST} DELs at once, whole burst      ${(wall(onEtcd, "DEL") / wall(local, "DEL")).toFixed(2)}`);
  reportSteps("ADD", single.get(onEtcd)?.add ?? []);
}
