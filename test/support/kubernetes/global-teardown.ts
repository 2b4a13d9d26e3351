/** Jest's globalTeardown of the cluster suite: ends what global-setup.ts started. */
import { rmSync } from "node:fs";
import { SHARED_CLUSTER } from "./cluster.ts";
import { endServersIn } from "./servers.ts";

export default async function teardown(): Promise<void> {
  const dir = process.env[SHARED_CLUSTER];
  if (dir === undefined) return;
  await endServersIn(dir);
  rmSync(dir, { recursive: true, force: true });
  delete process.env[SHARED_CLUSTER];
}
