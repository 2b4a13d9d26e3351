/** A node's lock that is always free, for tests whose operations take turns in one process. */
import type { NodeLock } from "../../ipam-plugin/node-lock.ts";

export async function freeLock(): Promise<NodeLock> {
  return { hadToWait: false, [Symbol.dispose]() {} };
}
