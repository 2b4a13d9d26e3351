/** A lock that is always free, for tests whose operations take turns in one process. */
import type { FileLock } from "../../lib/system/flock.ts";

export function freeLock(): FileLock {
  return { hadToWait: false, [Symbol.dispose]() {} };
}
