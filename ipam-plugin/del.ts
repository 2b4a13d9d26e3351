/** IPAM DEL: release what the container holds, by both forms of its handle, and leave its virtual machine; nothing held is success (I§1.7). */
import type { CniRequest } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { HandleReleaseOptions } from "./allocator/allocator.ts";
import { withNodeLock } from "./node-lock.ts";
import type { IpamServices } from "./services.ts";
import { isLauncherPod, type Workload, workloadOf } from "./workload.ts";

/** What the releases of one DEL share. */
export type Release = Required<Pick<HandleReleaseOptions, "view" | "keepDeselected">>;

/** Done under the node's lock; `hadToWait` as of the lock. */
type Step = (signal: AbortSignal, hadToWait: boolean) => Promise<unknown>;

/** Asks ahead for what a DEL of this request will read first, where that is of use. @throws as `ipamDel` */
export function expectDel(request: CniRequest, services: IpamServices): void {
  askForHandles(workloadOf(request, services), services);
}

function askForHandles({ handle, legacyHandle }: Workload, { datastore: { handles } }: IpamServices): void {
  for (const name of [handle, legacyHandle]) handles.ahead?.(name);
}

/**
 * Pools, the address asked for and the lock file never matter here. Every step is tried whatever becomes of the first, and the
 * first error is thrown (design, invariant 4).
 *
 * @throws TortieError `arguments-invalid`, `identity-invalid`; DatastoreError
 */
export async function ipamDel(request: CniRequest, config: NetworkConfig, services: IpamServices): Promise<void> {
  const workload = workloadOf(request, services);
  askForHandles(workload, services);
  const { handle, legacyHandle, identity } = workload;
  const { allocator } = services;
  const release: Release = {
    view: allocator.view(),
    // Where reads are requests to a server, blocks that are not for this node any more are its next ADD's or GC's to give up (docs/decisions.md).
    keepDeselected: chooseDatastore(config, services.env) !== "local",
  };
  const steps: Step[] = [
    async (signal, hadToWait) => {
      const { found } = await allocator.releaseByHandle(handle, { ...release, signal });
      // It was asked for before the turn came; an ADD that outlived its caller may have been one of those before us.
      if (!found && hadToWait) await allocator.releaseByHandle(handle, { ...release, signal });
    },
    (signal) => allocator.releaseByHandle(legacyHandle, { ...release, signal }),
  ];
  if (isLauncherPod(identity)) steps.push(await stepOfMachine(workload, request.network, release, services));
  await withNodeLock(config, services, async (signal, hadToWait) => {
    const errors: unknown[] = [];
    for (const step of steps) {
      try {
        await step(signal, hadToWait);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  });
}

/** Reads that fail must not keep the container's own handles from being released. */
async function stepOfMachine(workload: Workload, network: string, release: Release, services: IpamServices): Promise<Step> {
  const { leaveMachine } = await import("./kubevirt/del.ts");
  try {
    return await leaveMachine(workload, network, release, services);
  } catch (error) {
    return () => Promise.reject(error);
  }
}
