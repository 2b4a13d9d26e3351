/**
 * DEL of a pod that carried a virtual machine (I§1.9): the pod leaves the owners of the machine's addresses, which stay the machine's
 * until it is deleted and its last pod has left.
 */

import type { IpamCall } from "../call.ts";
import type { Release } from "../del.ts";
import type { IpamNode } from "../node.ts";
import type { Workload } from "../workload.ts";
import { leftMachineOf, persistsAddresses } from "./machine.ts";
import { dropOwnership, isDeserted } from "./owners.ts";

/**
 * The ordinary handles are the caller's: a pod has addresses there from a time when virtual machines did not keep theirs, and every pod
 * has when its virtual machine can no longer be determined.
 *
 * A virtual machine without a handle is none to leave: a DEL is repeated until it succeeds (Calico: recordings vm-target-alone,
 * vm-del-nothing).
 *
 * @throws TortieError `owner-conflict`; DatastoreError
 */
export async function leaveMachine(
  { identity }: Workload,
  { operation, keepDeselected }: Release,
  { request, log }: IpamCall,
  { allocator, datastore }: IpamNode,
): Promise<void> {
  const { namespace, pod } = identity;
  if (!datastore.traits.hasVirtualMachines) return;
  const machine = await leftMachineOf(datastore.virtualMachines, { namespace, name: pod }, request.network);
  if (machine === undefined) return;
  const left = await dropOwnership(allocator, machine.handle, { namespace, pod }, operation);
  if (left.length === 0) return;
  // Addresses from a time when virtual machines kept them go with the last pod as well.
  if (!machine.isEnding && (await persistsAddresses(() => operation.configuration(), log))) return;
  if (!(await isDeserted(allocator, machine.handle, left))) return;
  // Not what another pod of the virtual machine has taken over this instant.
  await allocator.releaseByHandle(machine.handle, { keepDeselected, owners: { active: {}, alternate: {} } }, operation);
  log.info(`released handle ${machine.handle}: its virtual machine is deleted, or keeps no addresses`);
}
