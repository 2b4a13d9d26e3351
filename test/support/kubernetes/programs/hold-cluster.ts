/** Starts a cluster of its own, says so on standard output, and waits to be killed: what a crashed test run looks like. */
import { startCluster } from "../test-cluster.ts";

const cluster = await startCluster({ own: true });
console.log(cluster.dir);
setInterval(() => undefined, 60_000);
