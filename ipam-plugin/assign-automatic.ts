/** Addresses that nobody asked for by name: one of each family that is switched on (I§1.6 step 6). */
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { messageOf, TortieError } from "../lib/errors.ts";
import type { Assignment } from "./add.ts";
import type { AssignedAddress, AutoAssignResult, FamilyAssignment } from "./allocator/allocator.ts";
import { shortageText } from "./allocator/auto-assign.ts";
import { withHostLock } from "./host-lock.ts";
import type { IpamServices } from "./services.ts";
import { ownerAttributes, soleOwner, type Workload } from "./workload.ts";

/**
 * Both families or none; printed with their blocks' prefix lengths, IPv4 first.
 *
 * @throws TortieError `addresses-exhausted` when a family got none, and what stopped the allocator
 */
export async function assignAutomatic(workload: Workload, config: NetworkConfig, services: IpamServices): Promise<Assignment> {
  const { identity, handle, machineAttributes } = workload;
  const { allocator, node, clock, log } = services;
  // Needs no lock. The pools of a family that is switched off are looked at too: a wrong entry is wrong (recording pools-wrong-family-off).
  const ipv4Pools = await allocator.resolvePools(config.ipam.ipv4Pools ?? [], 4);
  const ipv6Pools = await allocator.resolvePools(config.ipam.ipv6Pools ?? [], 6);
  const count4 = config.ipam.assignIpv4 ? 1 : 0;
  const count6 = config.ipam.assignIpv6 ? 1 : 0;
  if (count4 + count6 === 0) return { prefixes: [], isShared: false, giveBack: async () => {} };

  const attributes = ownerAttributes(workload, clock.nowNs());
  const assigned = await withHostLock(config, services, (signal) =>
    allocator.autoAssign({
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
      signal,
    }),
  );
  const giveBack = (): Promise<void> => allocator.giveBack(assigned, handle, soleOwner(workload, attributes).owners);
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
  }
  throw failure;
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
