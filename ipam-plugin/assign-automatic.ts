/** Addresses that nobody asked for by name: one of each family that is switched on (I§1.6 step 6). */

import type { Family } from "../lib/addresses/address.ts";
import { DatastoreError, isRefusal } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import type { Assignment, AssignmentRequest } from "./add.ts";
import { type AssignedAddress, type AutoAssignResult, type FamilyAssignment, HandleExistsError, type View } from "./allocator/allocator.ts";
import { shortageText } from "./allocator/auto-assign.ts";
import { familiesSwitchedOn } from "./families.ts";
import { withNodeLock } from "./node-lock.ts";
import type { IpamServices } from "./services.ts";
import { ownerAttributes, soleOwner } from "./workload.ts";

/**
 * Both families or none; printed with their blocks' prefix lengths, IPv4 first.
 *
 * A handle that must be new is looked for as well when no address is left: it may hold the last ones.
 *
 * @throws TortieError `addresses-exhausted` when a family got none, and what stopped the allocator; HandleExistsError
 */
export async function assignAutomatic(
  { workload, config, mustBeNew, view }: AssignmentRequest,
  services: IpamServices,
): Promise<Assignment> {
  const { identity, handle, machineAttributes } = workload;
  const { allocator, node, clock, log } = services;
  // Needs no lock. The pools of a family that is switched off are looked at too: a wrong entry is wrong (recording pools-wrong-family-off).
  const ipv4Pools = await allocator.resolvePools(config.ipam.ipv4Pools ?? [], 4, view);
  const ipv6Pools = await allocator.resolvePools(config.ipam.ipv6Pools ?? [], 6, view);
  const count4 = config.ipam.assignIpv4 ? 1 : 0;
  const count6 = config.ipam.assignIpv6 ? 1 : 0;
  if (count4 + count6 === 0) return { prefixes: [], isShared: false, giveBack: async () => {} };

  // Asked for together before the turn comes. Failures are met again where the lists are used.
  const families = view.affinitiesMayBeOld ? familiesSwitchedOn(config) : [];
  const reading = Promise.allSettled(assignmentReads(view, families));
  const attributes = ownerAttributes(workload, clock.nowNs());
  await reading;
  const assigned = await withNodeLock(config, services, (signal, hadToWait) => {
    // Those before us may have claimed blocks since.
    if (hadToWait) view.forgetAffinities();
    return allocator.autoAssign({
      count4,
      count6,
      handle,
      attributes,
      owner: { type: "host", name: node },
      ipv4Pools,
      ipv6Pools,
      use: "Workload",
      namespace: identity.namespace,
      perRequestBlockLimit: config.windowsUseSingleNetwork ? 1 : 0,
      perHandleLimit: machineAttributes === undefined ? 0 : 1,
      mustBeNew,
      view,
      signal,
    });
  });
  const giveBack = (): Promise<void> => allocator.giveBack(assigned, handle, soleOwner(workload, attributes).owners, view);
  const failure = failureOf(assigned);
  if (failure === undefined)
    return {
      prefixes: addressesOf(assigned).map(({ prefix }) => prefix),
      isShared: addressesOf(assigned).some(({ isReused }) => isReused),
      giveBack,
    };

  try {
    await giveBack();
  } catch (error) {
    // What stopped the ADD is the error to report; the runtime's DEL releases the handle.
    log.error(`cannot give back the addresses of a failed ADD: ${messageOf(error)}`);
    throw failure;
  }
  if (mustBeNew && isRefusal(failure) && (await exists(handle, services))) throw new HandleExistsError(handle);
  throw failure;
}

/** The lists that addresses are chosen from. */
export function assignmentReads(view: View, families: readonly Family[]): readonly Promise<unknown>[] {
  return [view.pools(), view.reservations(), ...families.map((family) => view.affinities(family))];
}

/** Whether there is such a handle; not when that cannot be told, because another error is on its way. */
async function exists(handle: string, { datastore }: IpamServices): Promise<boolean> {
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
