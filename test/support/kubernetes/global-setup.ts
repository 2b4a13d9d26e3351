/** Jest's globalSetup of the cluster suite: one cluster for all test files (scripts/jest). */

import { LEGACY, V3 } from "./resources.ts";
import { SHARED_CLUSTER, TestCluster } from "./test-cluster.ts";

export default async function setup(): Promise<void> {
  const cluster = await TestCluster.create([LEGACY, V3]);
  process.env[SHARED_CLUSTER] = cluster.dir;
}
