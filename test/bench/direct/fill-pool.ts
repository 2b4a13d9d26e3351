/**
 * A /16 pool filled to its last address by one host: an address must not cost more because many were given before. The allocator is
 * measured alone, in one process on one open store: a plugin's start and end (bench, above) are the same for every address and would
 * hide the difference.
 */
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { type LocalDatastore, openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { row, summarise } from "../statistics.ts";

const CIDR = "10.96.0.0/16";
const ADDRESSES = 65_536;
const BLOCK_SIZE = 26;
const DECILES = 10;

/** Milliseconds of each assignment, in order. */
export async function fillPool(path: string): Promise<readonly number[]> {
  await using store = openLocalDatastore(path);
  await setUp(store);
  const allocator = new Allocator({ datastore: store, clock: { nowMs: Date.now, nowNs: () => BigInt(Date.now()) * 1_000_000n } });
  const times: number[] = [];
  while (times.length < ADDRESSES) {
    const start = performance.now();
    const { ipv4 } = await allocator.autoAssign({
      count4: 1,
      count6: 0,
      handle: `bench.c${times.length}`,
      attributes: { node: "bench-node", namespace: "default", pod: `pod-${times.length}` },
      owner: { type: "host", name: "bench-node" },
      use: "Workload",
    });
    times.push(performance.now() - start);
    if (ipv4?.addresses.length !== 1) throw ipv4?.error ?? new Error(`address ${times.length}: ${ipv4?.messages.join("; ")}`);
  }
  return times;
}

export function reportFill(times: readonly number[]): void {
  const length = Math.floor(times.length / DECILES);
  const means = Array.from({ length: DECILES }, (_, decile) => mean(times.slice(decile * length, (decile + 1) * length)));
  const { p50, p95, max } = summarise(times);
  console.log(`\na ${CIDR} pool filled to the last address by one host, milliseconds an address`);
  console.log(row(["  p50, p95, max", p50, p95, max], [16, 9, 9, 9]));
  console.log(row(["  mean by tenth", ...means], [16, ...means.map(() => 6)]));
  console.log(`  last tenth / first tenth         ${((means.at(-1) ?? Number.NaN) / (means[0] ?? Number.NaN)).toFixed(2)}`);
}

async function setUp(store: LocalDatastore): Promise<void> {
  await store.pools.create("bench", {
    name: "bench",
    cidr: CIDR,
    blockSize: BLOCK_SIZE,
    disabled: false,
    nodeSelector: "all()",
    namespaceSelector: "",
    allowedUses: ["Workload"],
    assignmentMode: "Automatic",
    natOutgoing: true,
    deleting: false,
  });
  await store.ipamConfiguration.create("default", {
    strictAffinity: true,
    autoAllocateBlocks: true,
    maxBlocksPerHost: ADDRESSES >> (32 - BLOCK_SIZE),
    kubeVirtVMAddressPersistence: "Enabled",
    ipCooldownSeconds: 0,
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
