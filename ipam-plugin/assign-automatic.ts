/** Addresses that nobody asked for by name: one of each family that is switched on (I§1.6 step 6). */
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { messageOf, TortieError } from "../lib/errors.ts";
import type { Assignment } from "./add.ts";
import type { AutoAssignResult, FamilyAssignment } from "./allocator/allocator.ts";
import { withHostLock } from "./host-lock.ts";
import type { IpamServices } from "./services.ts";
import { ownerAttributes, type Workload } from "./workload.ts";

/**
 * Both families or none; printed with their blocks' prefix lengths, IPv4 first.
 *
 * @throws TortieError `addresses-exhausted` when a family got none, and what stopped the allocator
 */
export async function assignAutomatic({ identity, handle }: Workload, config: NetworkConfig, services: IpamServices): Promise<Assignment> {
  const { allocator, node, clock, log } = services;
  // Needs no lock. The pools of a family that is switched off are looked at too: a wrong entry is wrong (recording pools-wrong-family-off).
  const ipv4Pools = await allocator.resolvePools(config.ipam.ipv4Pools ?? [], 4);
  const ipv6Pools = await allocator.resolvePools(config.ipam.ipv6Pools ?? [], 6);
  const count4 = config.ipam.assignIpv4 ? 1 : 0;
  const count6 = config.ipam.assignIpv6 ? 1 : 0;
  if (count4 + count6 === 0) return { prefixes: [], giveBack: async () => {} };

  const assigned = await withHostLock(config, services, (signal) =>
    allocator.autoAssign({
      count4,
      count6,
      handle,
      attributes: ownerAttributes(identity, clock.nowNs()),
      owner: { type: "host", name: node },
      ipv4Pools,
      ipv6Pools,
      use: "Workload",
      namespace: identity.namespace,
      perRequestBlockLimit: config.windowsUseSingleNetwork ? 1 : 0,
      signal,
    }),
  );
  const giveBack = (): Promise<void> => allocator.giveBack(assigned, handle);
  const failure = failureOf(assigned);
  if (failure === undefined) return { prefixes: prefixesOf(assigned), giveBack };

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
  const { family, requested, addresses, messages } = assignment;
  const got = `Assigned ${addresses.length} out of ${requested} requested IPv${family} addresses`;
  return new TortieError("addresses-exhausted", `failed to request IPv${family} addresses: ${[got, ...messages].join("; ")}`);
}

function prefixesOf({ ipv4, ipv6 }: AutoAssignResult): Assignment["prefixes"] {
  return [...(ipv4?.addresses ?? []), ...(ipv6?.addresses ?? [])].map(({ prefix }) => prefix);
}
