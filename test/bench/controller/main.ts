/**
 * `npm run bench -- --controller`: a whole tortie-controller on a real API server with the objects of 500 simulated nodes: how long until
 * it has seen all, what a fiftieth of the nodes costs that go at once, and what it holds meanwhile. Reported, not judged.
 */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { claim } from "../../support/blocks.ts";
import { ClusterAddresses, NAMESPACE } from "../../support/cluster-addresses.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const NODES = 500;
const PODS_PER_NODE = 1;
const GONE = NODES / 50;
const HEALTH_PORT = 9880;
const LOOK_MS = 50;

const names = Array.from({ length: NODES }, (_, index) => `node-${index}`);
const eachOf = async (items: readonly string[], work: (item: string) => Promise<unknown>) => {
  const left = [...items];
  const worker = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
};
const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;
const metrics = async () => (await fetch(`http://127.0.0.1:${HEALTH_PORT}/metrics`).catch(() => undefined))?.text() ?? "";
const sumOf = (text: string, name: string) =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? ([0-9.e+]+)$`, "gm"))].reduce((sum, [, value]) => sum + Number(value), 0);
const until = async (isSo: () => Promise<boolean>) => {
  while (!(await isSo())) await Bun.sleep(LOOK_MS);
};

await using cluster = await startCluster();
await cluster.setReady(true);
await cluster.createNamespace(NAMESPACE);
await cluster.createPool("bench", { cidr: "10.96.0.0/16", blockSize: 29 });
await using addresses = await ClusterAddresses.open(cluster);
const made = performance.now();
await eachOf(names, async (node) => {
  await cluster.createNode(node);
  // Blocks by hand: 500 nodes that look for a free one together would measure the allocator.
  const index = Number(node.slice("node-".length));
  const block = `10.96.${Math.floor(index / 32)}.${(index % 32) * 8}/29`;
  await claim(addresses.allocator, block, { type: "host", name: node });
  for (let pod = 0; pod < PODS_PER_NODE; pod++) await addresses.addPod(node, `${node}-${pod}`);
});
console.log(`${NODES} nodes with ${PODS_PER_NODE} pod each, made in ${seconds(made)}`);

const kubeconfig = await cluster.kubeconfigFor("controller");
const flags = ["--kubeconfig", kubeconfig, "--scan-interval", "1", "--node-grace", "1", "--health-port", String(HEALTH_PORT)];
const mark = await cluster.mark();
const began = performance.now();
const child = spawn(resolve("dist/bin/tortie-controller"), [...flags, "--log-level", "error"], {
  env: {},
  stdio: ["ignore", "ignore", "inherit"],
});
const memory = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1024;
const report = async (title: string, since: number, from: number) => {
  const counts = Map.groupBy(
    (await cluster.requests(from)).filter(({ user }) => user.endsWith(":tortie-controller")),
    ({ verb }) => verb,
  );
  const kinds = [...counts].map(([verb, requests]) => `${verb} ${requests.length}`).sort();
  console.log(`${title}: ${seconds(since)}, ${memory().toFixed(0)} MiB, requests: ${kinds.join(", ")}`);
};
try {
  await until(async () => sumOf(await metrics(), "ipam_allocations_in_use") === NODES * PODS_PER_NODE);
  await report("all seen", began, mark);
  await Bun.sleep(10_000);
  await report("ten seconds later, ten looks", began, mark);

  const gone = names.slice(0, GONE);
  const cut = await cluster.mark();
  await eachOf(gone, async (node) => {
    for (let pod = 0; pod < PODS_PER_NODE; pod++) await addresses.removePod(`${node}-${pod}`);
    await cluster.remove("v1", "nodes", node);
  });
  const removed = performance.now();
  await until(
    async () =>
      sumOf(await metrics(), "ipam_blocks") <= NODES - GONE &&
      sumOf(await metrics(), "ipam_allocations_gc_reclamations") >= GONE * PODS_PER_NODE,
  );
  await report(`${GONE} nodes gone and cleaned up, 1 s of it grace`, removed, cut);
} finally {
  child.kill("SIGTERM");
}
