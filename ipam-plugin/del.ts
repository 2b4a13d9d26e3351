/** IPAM DEL: release what the container holds, by both forms of its handle; nothing held is success (I§1.7). */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { withHostLock } from "./host-lock.ts";
import type { IpamServices } from "./services.ts";
import { workloadOf } from "./workload.ts";

/**
 * Pools, the address asked for and the lock file never matter here. Both handles are tried whatever becomes of the first, and the
 * first error is thrown (design, invariant 4).
 *
 * @throws TortieError `arguments-invalid`, `identity-invalid`; DatastoreError
 */
export async function ipamDel(request: CniRequest, config: NetworkConfig, services: IpamServices): Promise<void> {
  const { handle, legacyHandle } = workloadOf(request, services);
  await withHostLock(config, services, async (signal) => {
    const errors: unknown[] = [];
    for (const name of [handle, legacyHandle]) {
      try {
        await services.allocator.releaseByHandle(name, { signal });
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  });
}
