/**
 * The node's lock: IPAM processes of one node take turns, ours and Calico's (I§1.8). It only spares the store conflicts; what keeps
 * addresses apart is compare-and-swap, so that a lock that cannot be had stops nobody.
 */
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { messageOf } from "../lib/errors/errors.ts";
import type { FileLock } from "../lib/system/flock.ts";
import type { IpamServices } from "./services.ts";

/** Time for one allocation or release, the wait for the lock not counted: in a burst of pods the wait can be longer (I§1.8, I§9). */
const TIME_LIMIT_MS = 90_000;

/** Runs `work` under the lock, with a signal that aborts when its time is over, and whether others held the lock first. */
export async function withHostLock<T>(
  config: Pick<NetworkConfig, "ipamLockFile">,
  services: Pick<IpamServices, "lock" | "deadline" | "log">,
  work: (signal: AbortSignal, hadToWait: boolean) => Promise<T>,
): Promise<T> {
  using held = takeLock(config.ipamLockFile, services);
  return await work(services.deadline(TIME_LIMIT_MS), held?.hadToWait ?? false);
}

function takeLock(path: string, services: Pick<IpamServices, "lock" | "log">): FileLock | undefined {
  try {
    return services.lock(path);
  } catch (error) {
    services.log.error(`going on without the lock of this node: ${messageOf(error)}`);
    return undefined;
  }
}
