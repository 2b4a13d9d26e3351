/**
 * IPAM ADD: the addresses of one attachment, both families or none (I§1.6, design invariant 6).
 * Not idempotent, as Calico's: a second ADD of the same container takes another address under the same handle.
 */
import { type Address, formatPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { CniRequest, CniResult } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { ADDRESS_KEYS, parseCniArgs } from "../lib/workload/cni-args.ts";
import { requestedAddresses } from "../lib/workload/requested.ts";
import { assignAutomatic } from "./assign-automatic.ts";
import { assignRequested } from "./assign-requested.ts";
import { ensurePools } from "./pools-from-config.ts";
import { checkAdd } from "./preconditions.ts";
import type { IpamServices } from "./services.ts";
import { isLauncherPod, type Workload, workloadOf } from "./workload.ts";

/** Addresses in the order of the result, and the way to give back exactly what this call took. */
export interface Assignment {
  readonly prefixes: readonly Prefix[];
  /** Some of them were the handle's before (I§3.9). */
  readonly isShared: boolean;
  giveBack(): Promise<void>;
}

export interface IpamAddition {
  readonly result: CniResult;
  /** For a caller whose later step fails: releases what this ADD took, and nothing that an earlier ADD of the container holds. */
  giveBack(): Promise<void>;
}

/**
 * @throws TortieError `arguments-invalid`, `identity-invalid`, `addresses-requested-invalid`, `netconf-value`, `pool-missing`,
 * `pool-conflict`, `addresses-exhausted`, what the allocator refuses, and for pods of virtual machines what kubevirt/add.ts does; nothing is kept then
 */
export async function ipamAdd(request: CniRequest, config: NetworkConfig, services: IpamServices): Promise<IpamAddition> {
  const workload = workloadOf(request, services);
  const datastoreType = checkAdd(workload, request.network, config, services);
  // Read a second time with other known keys: the names of pods need IgnoreUnknown here (I§1.4, recording args-09).
  const requested = requestedAddresses(config, parseCniArgs(request.args, ADDRESS_KEYS));
  await ensurePools(config, services.datastore);
  const assign = (whom: Workload, addresses: readonly Address[], families: NetworkConfig): Promise<Assignment> =>
    addresses.length > 0 ? assignRequested(addresses, whom, families, datastoreType, services) : assignAutomatic(whom, families, services);
  if (isLauncherPod(workload.identity)) {
    const { assignToMachine } = await import("./kubevirt/add.ts");
    const assigned = await assignToMachine({ workload, network: request.network, requested, config }, assign, services);
    if (assigned !== undefined) return { result: resultOf(assigned.prefixes, assigned.hasRoutes), giveBack: assigned.giveBack };
  }
  const { prefixes, giveBack } = await assign(workload, requested, config);
  return { result: resultOf(prefixes), giveBack };
}

/** One route an address with the identical text, host bits kept (I§1.6 step 6). */
function resultOf(prefixes: readonly Prefix[], hasRoutes = true): CniResult {
  const texts = prefixes.map(formatPrefix);
  return { interfaces: [], ips: texts.map((address) => ({ address })), routes: hasRoutes ? texts.map((dst) => ({ dst })) : [], dns: {} };
}
