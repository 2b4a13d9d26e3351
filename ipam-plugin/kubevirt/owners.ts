/** Keeps the owners of a machine's addresses: the pod it runs in, and the pod it is about to move to (I§1.9). */

import { TortieError } from "../../lib/errors/errors.ts";
import type { WorkloadIdentity } from "../../lib/workload/identity.ts";
import type { Allocator, Operation } from "../allocator/allocator.ts";
import type { HeldAddress, OwnerAttributes } from "../allocator/types.ts";
import type { IpamCall } from "../call.ts";
import type { IpamHost } from "../host.ts";
import type { Workload } from "../workload.ts";
import { leftMachineOf, persistsAddresses } from "./machine.ts";

/** Has what the releases of one DEL share. */
export interface Release {
  readonly operation: Operation;
  readonly keepDeselected: boolean;
}

export type OwnerKind = "active" | "alternate";

/** Equals the tries of Felix, which promotes an alternate owner in at most five (I§1.9), so that no update loses more often against it. */
const MOST_TRIES = 5;

/**
 * Makes a pod the owner of one kind and replaces the previous owner.
 *
 * @returns the way back, which restores the owner that was replaced if no other write came between; `undefined` when the machine has lost
 * the address meanwhile
 */
export async function takeOwnership(
  allocator: Allocator,
  held: HeldAddress,
  handle: string,
  kind: OwnerKind,
  attributes: OwnerAttributes,
  signal: AbortSignal,
): Promise<(() => Promise<void>) | undefined> {
  const now = await unlessOvertaken(() => allocator.setOwnerAttributes(held, handle, { [kind]: attributes }, {}, { signal }));
  if (now === undefined) return undefined;
  const before = ownerOf(held, kind);
  return async () => {
    const restored = Object.keys(before).length === 0 ? null : before;
    await unlessOvertaken(() => allocator.setOwnerAttributes(now, handle, { [kind]: restored }, { [kind]: attributes }));
  };
}

/**
 * Takes a pod out of the owners of the machine's addresses, each under the condition that it still is the owner.
 *
 * @returns the machine's addresses, each as it was after the pod had left it
 * @throws TortieError `owner-conflict` when the owners keep changing
 */
export async function dropOwnership(
  allocator: Allocator,
  handle: string,
  pod: Pick<WorkloadIdentity, "namespace" | "pod">,
  operation: Operation,
): Promise<readonly HeldAddress[]> {
  const mine = { namespace: pod.namespace, pod: pod.pod };
  for (let tries = 1; tries <= MOST_TRIES; tries++) {
    const left: HeldAddress[] = [];
    const held = (await allocator.addressesByHandle(handle)) ?? [];
    for (const address of held) {
      const kind = (["active", "alternate"] as const).find((each) => isOwnedBy(address, each, mine));
      const now =
        kind === undefined
          ? address
          : await unlessOvertaken(() => allocator.setOwnerAttributes(address, handle, { [kind]: null }, { [kind]: mine }, operation));
      if (now !== undefined) left.push(now);
    }
    if (left.length === held.length && !left.some((address) => isOwnedBy(address, "alternate", mine))) return left;
  }
  throw new TortieError("owner-conflict", `update conflict: the owners of handle ${handle} changed ${MOST_TRIES} times in a row`);
}

/**
 * Tells whether none of the addresses has an owner. Of two pods that leave at once, one may have left the first address last and the other
 * one the second: both look again, and the later one sees that no owner is left.
 */
export async function isDeserted(allocator: Allocator, handle: string, left: readonly HeldAddress[]): Promise<boolean> {
  if (left.every(isOwnerless)) return true;
  const now = (await allocator.addressesByHandle(handle)) ?? [];
  return now.length > 0 && now.every(isOwnerless);
}

function isOwnedBy(held: HeldAddress, kind: OwnerKind, pod: OwnerAttributes): boolean {
  return Object.entries(pod).every(([key, value]) => ownerOf(held, kind)[key] === value);
}

function isOwnerless(held: HeldAddress): boolean {
  return Object.keys(held.activeOwner).length === 0 && Object.keys(held.alternateOwner).length === 0;
}

function ownerOf({ activeOwner, alternateOwner }: HeldAddress, kind: OwnerKind): OwnerAttributes {
  return kind === "active" ? activeOwner : alternateOwner;
}

/** Makes a change; `undefined`: another process has changed the owners or released the address, and is responsible for the present state. */
async function unlessOvertaken(change: () => Promise<HeldAddress>): Promise<HeldAddress | undefined> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof TortieError && (error.word === "owner-conflict" || error.word === "address-not-assigned")) return undefined;
    throw error;
  }
}

/**
 * Serves DEL of a pod that carried a virtual machine: the pod leaves the owners of the machine's addresses, which stay the machine's until
 * it is deleted and its last pod has left.
 *
 * The ordinary handles are the caller's: a pod has addresses there from a time when virtual machines did not keep theirs, and every pod has
 * when its virtual machine can no longer be determined.
 *
 * A virtual machine without a handle need not be left: a DEL is repeated until it succeeds (Calico: recordings vm-target-alone,
 * vm-del-nothing).
 *
 * @throws TortieError `owner-conflict`; DatastoreError
 */
export async function leaveMachine(
  { identity }: Workload,
  { operation, keepDeselected }: Release,
  { request, log }: IpamCall,
  { allocator, datastore }: IpamHost,
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
