/** One agent a run directory: flock(2) on `agent.lock`, held as long as the process lives (A§0.2). */
import { TortieError } from "../../lib/errors/errors.ts";
import { lockHolder, tryLockFile } from "../../lib/system/flock.ts";

/** @throws TortieError `agent-running` when another agent has it */
export function takeInstanceLock(path: string): Disposable {
  const lock = tryLockFile(path);
  if (lock !== undefined) return lock;
  throw new TortieError("agent-running", `another agent serves this run directory: ${path} is held by ${lockHolder(path)}`);
}
