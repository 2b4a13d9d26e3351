/** Jest's globalSetup of the cluster suite: one cluster for all test files (scripts/jest). */
import { SHARED_CLUSTER, TestCluster } from "./cluster.ts";
import { LEGACY, V3 } from "./resources.ts";

export default async function setup(): Promise<void> {
  const cluster = await TestCluster.create([LEGACY, V3]);
  process.env[SHARED_CLUSTER] = cluster.dir;
}
