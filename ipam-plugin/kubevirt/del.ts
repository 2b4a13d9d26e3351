/**
 * DEL of a pod that carried a virtual machine (I§1.9): the pod leaves the owners of the machine's addresses, which stay the machine's
 * until it is deleted and its last pod has left.
 */
import type { Release } from "../del.ts";
import type { IpamServices } from "../services.ts";
import type { Workload } from "../workload.ts";
import { leftMachineOf } from "./machine.ts";
import { dropOwnership, isDeserted } from "./owners.ts";
import { persistsAddresses } from "./persistence.ts";

/** What is left to do under the lock of the node. */
export type Leave = (signal: AbortSignal) => Promise<void>;

/**
 * Reads which machine it was, which needs no lock. The ordinary handles are the caller's: a pod has addresses there from a time when
 * machines did not keep theirs, and every pod has when nobody can tell its machine any more.
 *
 * A machine without a handle is none to leave: a DEL is repeated until it succeeds (Calico: recordings vm-target-alone, vm-del-nothing).
 *
 * @throws DatastoreError, and from what it returns TortieError `owner-conflict`, DatastoreError
 */
export async function leaveMachine({ identity }: Workload, network: string, release: Release, services: IpamServices): Promise<Leave> {
  const { allocator, datastore, log } = services;
  const { namespace, pod } = identity;
  const machine = datastore.traits.hasVirtualMachines
    ? await leftMachineOf(datastore.virtualMachines, { namespace, name: pod }, network)
    : undefined;
  if (machine === undefined) return async () => {};
  return async (signal) => {
    const left = await dropOwnership(allocator, machine.handle, { namespace, pod }, signal);
    if (left.length === 0) return;
    // Addresses from a time when machines kept them go with the last pod as well.
    if (!machine.isEnding && (await persistsAddresses(release.view, services))) return;
    if (!(await isDeserted(allocator, machine.handle, left))) return;
    // Not what another pod of the machine has taken over this instant.
    await allocator.releaseByHandle(machine.handle, { ...release, owners: { active: {}, alternate: {} }, signal });
    log.info(`released handle ${machine.handle}: its virtual machine is deleted, or keeps no addresses`);
  };
}
