/** Serves IPAM DEL: releases what both forms of the container's handle hold, and leaves its virtual machine; nothing held is success (I§1.7). */
import type { IpamCall } from "./call.ts";
import type { IpamHost } from "./host.ts";
import type { Release } from "./kubevirt/owners.ts";
import { withNodeLock } from "./node-lock.ts";
import { isLauncherPod, mayHoldByLegacyHandle, workloadOf } from "./workload.ts";

/**
 * Asks everything under the lock: what was read before a long wait for it would be old, and its answer would come too late.
 *
 * Pools, the address asked for and the lock file never matter here. Every step is tried whatever becomes of the first, and the
 * first error is thrown (design, invariant 4).
 *
 * @throws TortieError `arguments-invalid`, `identity-invalid`, `node-lock-timeout`; DatastoreError
 */
export async function ipamDel(call: IpamCall, host: IpamHost): Promise<void> {
  const workload = workloadOf(call);
  const { handle, legacyHandle, identity } = workload;
  const { allocator, datastore } = host;
  await withNodeLock(call, host, async (signal) => {
    // Where reads are requests to a server, the node's next ADD or its GC gives up blocks that are not for it any more (docs/project/decisions.md).
    const release: Release = {
      operation: allocator.begin({ signal, mayBeOld: true }),
      keepDeselected: datastore.traits.poolsFrom === "cluster",
    };
    const { operation, keepDeselected } = release;
    const steps: (() => Promise<unknown>)[] = [() => allocator.releaseByHandle(handle, { keepDeselected }, operation)];
    if (!host.hasMadeHandle(handle)) {
      // Tenants choose the names of namespaces and pods, so this handle may be another one's, or a tunnel's.
      const isTheirs = mayHoldByLegacyHandle(identity);
      steps.push(() => allocator.releaseByHandle(legacyHandle, { keepDeselected, isTheirs }, operation));
    }
    if (isLauncherPod(identity)) {
      const { leaveMachine } = await import("./kubevirt/owners.ts");
      steps.push(() => leaveMachine(workload, release, call, host));
    }
    const errors: unknown[] = [];
    for (const step of steps) {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  });
}
