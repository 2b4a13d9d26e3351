/** Addresses that were not requested by value: one of each family that is switched on (I§1.6 step 6). */

import { DatastoreError, isRefusal } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Assignment, AssignmentRequest } from "./add.ts";
import { shortageText } from "./allocator/auto-assign.ts";
import { type AssignedAddress, type AutoAssignResult, type FamilyAssignment, HandleExistsError } from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";
import type { IpamNode } from "./node.ts";
import { withNodeLock } from "./node-lock.ts";
import { ownerAttributes, soleOwner } from "./workload.ts";

/**
 * Both families or none; printed with their blocks' prefix lengths, IPv4 first.
 *
 * A handle that must be new is looked for as well when no address is left: it may hold the last ones.
 *
 * @throws TortieError `addresses-exhausted` when a family got none, and what stopped the allocator; HandleExistsError
 */
export async function assignAutomatic(
  { workload, config, mustBeNew }: AssignmentRequest,
  call: IpamCall,
  node: IpamNode,
): Promise<Assignment> {
  const { identity, handle, machineAttributes } = workload;
  const { allocator, datastore, clock } = node;
  const { ipam } = config;
  // The pools of a family that is switched off are looked at too: a wrong entry is wrong (recording pools-wrong-family-off).
  const entries = { ipv4: ipam.ipv4Pools ?? [], ipv6: ipam.ipv6Pools ?? [] };
  const count4 = ipam.assignIpv4 ? 1 : 0;
  const count6 = ipam.assignIpv6 ? 1 : 0;
  if (count4 + count6 === 0 && entries.ipv4.length + entries.ipv6.length === 0) {
    return { prefixes: [], isShared: false, giveBack: async () => {} };
  }
  const attributes = ownerAttributes(workload, clock.nowNs());
  const assigned = await withNodeLock(call, node, (signal) =>
    // Pools, reservations and affinities decide what is taken, so none of them is read before the lock is had (design, invariant 10).
    allocator.autoAssign(
      {
        count4,
        count6,
        handle,
        attributes,
        owner: { type: "host", name: identity.node },
        ipv4Pools: entries.ipv4,
        ipv6Pools: entries.ipv6,
        use: "Workload",
        namespace: identity.namespace,
        perRequestBlockLimit: config.windowsUseSingleNetwork ? 1 : 0,
        perHandleLimit: machineAttributes === undefined ? 0 : 1,
        mustBeNew,
      },
      { mustExist: datastore.traits.nodesAreObjects, mayBeOld: true, signal },
    ),
  );
  const giveBack = (neverUsed = false): Promise<void> =>
    allocator.giveBack(assigned, handle, { ...soleOwner(workload, attributes), neverUsed });
  const failure = failureOf(assigned);
  if (failure === undefined)
    return {
      prefixes: addressesOf(assigned).map(({ prefix }) => prefix),
      isShared: addressesOf(assigned).some(({ isReused }) => isReused),
      giveBack: () => giveBack(),
    };

  try {
    await giveBack(true);
  } catch (error) {
    // What stopped the ADD is the error to report; the runtime's DEL releases the handle.
    call.log.error(`cannot give back the addresses of a failed ADD: ${messageOf(error)}`);
    throw failure;
  }
  if (mustBeNew && isRefusal(failure) && (await exists(handle, node))) throw new HandleExistsError(handle);
  throw failure;
}

/** Whether the handle exists; false when that cannot be told, because another error is about to be reported. */
async function exists(handle: string, { datastore }: IpamNode): Promise<boolean> {
  try {
    return (await datastore.handles.get(handle)) !== undefined;
  } catch (error) {
    if (error instanceof DatastoreError) return false;
    throw error;
  }
}

/** The first thing that is missing, an error before a shortage. */
function failureOf({ ipv4, ipv6 }: AutoAssignResult): Error | undefined {
  return ipv4?.error ?? ipv6?.error ?? shortage(ipv4) ?? shortage(ipv6);
}

/** Calico's words (I§1.6, I§1.10). */
function shortage(assignment: FamilyAssignment | undefined): TortieError | undefined {
  if (assignment === undefined || assignment.addresses.length >= assignment.requested) return undefined;
  return new TortieError("addresses-exhausted", `failed to request IPv${assignment.family} addresses: ${shortageText(assignment)}`);
}

function addressesOf({ ipv4, ipv6 }: AutoAssignResult): readonly AssignedAddress[] {
  return [...(ipv4?.addresses ?? []), ...(ipv6?.addresses ?? [])];
}
