/**
 * Jest's globalTeardown of the cluster suite: ends what global-setup.ts started, and fails where one of our accounts asked for what its role
 * does not allow. What roles allow too much is asked when the whole suite has run (scripts/suites).
 */
import { rmSync } from "node:fs";
import { compareRights, EXPLAINED, grantedRights, keepUse, useOfServer } from "./role-use.ts";
import { endServersIn } from "./servers.ts";
import { SHARED_CLUSTER } from "./test-cluster.ts";

export default async function teardown(): Promise<void> {
  const dir = process.env[SHARED_CLUSTER];
  if (dir === undefined) return;
  await endServersIn(dir);
  const used = useOfServer(dir);
  const problems = compareRights(grantedRights(), used, EXPLAINED, false);
  keepUse(used);
  rmSync(dir, { recursive: true, force: true });
  delete process.env[SHARED_CLUSTER];
  if (problems.length > 0) throw new Error(problems.join("\n"));
}
