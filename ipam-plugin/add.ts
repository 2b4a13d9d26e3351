/**
 * IPAM ADD: the addresses of one attachment, both families or none (I§1.6, design invariant 6).
 * Not idempotent, as Calico's: a second ADD of the same container takes another address under the same handle.
 */
import { type Address, formatPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { ADDRESS_KEYS, parseCniArgs } from "../lib/workload/cni-args.ts";
import { requestedAddresses } from "../lib/workload/requested.ts";
import type { View } from "./allocator/allocator.ts";
import { assignAutomatic, assignmentReads } from "./assign-automatic.ts";
import { assignRequested } from "./assign-requested.ts";
import { familiesSwitchedOn } from "./families.ts";
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

/** For whom and how an address is taken. */
export interface AssignmentRequest {
  readonly workload: Workload;
  readonly config: NetworkConfig;
  /** The handle must not exist: HandleExistsError, and nothing taken, when it does. */
  readonly mustBeNew: boolean;
  /** What this ADD has read so far. */
  readonly view: View;
  readonly meanwhile: (() => void) | undefined;
}

/** Takes addresses from the pools: those named, or without names one of each family that the configuration switches on. */
export type Assign = (workload: Workload, requested: readonly Address[], config: NetworkConfig, mustBeNew: boolean) => Promise<Assignment>;

export interface AddOptions {
  /** What `expectAdd` has asked for, of the same request. */
  readonly view?: View | undefined;
  /** As of an AutoAssignRequest. */
  readonly meanwhile?: (() => void) | undefined;
  /** The container should hold nothing yet: HandleExistsError, and nothing taken, when it does. */
  readonly mustBeNew?: boolean;
}

export interface IpamAddition {
  readonly result: CniResult;
  /** For a caller whose later step fails: releases what this ADD took, and nothing that an earlier ADD of the container holds. */
  giveBack(): Promise<void>;
}

/** An ADD that is to come. */
export interface ExpectedAdd {
  readonly view: View;
  /** Asks ahead for what an ADD of no particular address reads, where that is of use. */
  ask(): void;
}

/** Asks nothing yet. @throws TortieError `arguments-invalid`, `identity-invalid` */
export function expectAdd(request: CniRequest, config: NetworkConfig, services: IpamServices): ExpectedAdd {
  const workload = workloadOf(request, services);
  const view = viewOf(workload, config, services);
  const families = familiesSwitchedOn(config);
  services.datastore.affinities.expectOwner?.({ type: "host", name: services.node });
  return {
    view,
    ask() {
      // The pod of a virtual machine may get the addresses that the machine has.
      if (!view.affinitiesMayBeOld || isLauncherPod(workload.identity)) return;
      for (const read of assignmentReads(view, families)) read.catch(() => {});
    },
  };
}

/**
 * @throws TortieError `arguments-invalid`, `identity-invalid`, `addresses-requested-invalid`, `netconf-value`, `pool-missing`,
 * `pool-conflict`, `addresses-exhausted`, what the allocator refuses, and for pods of virtual machines what kubevirt/add.ts does; HandleExistsError. Nothing is kept then
 */
export async function ipamAdd(
  request: CniRequest,
  config: NetworkConfig,
  services: IpamServices,
  { mustBeNew = false, view: expected, meanwhile }: AddOptions = {},
): Promise<IpamAddition> {
  const workload = workloadOf(request, services);
  const datastoreType = checkAdd(workload, request.network, config, services);
  // Read a second time with other known keys: the names of pods need IgnoreUnknown here (I§1.4, recording args-09).
  const requested = requestedAddresses(config, parseCniArgs(request.args, ADDRESS_KEYS));
  await ensurePools(config, services.datastore);
  // Whether an address is in a pool is no question for a list that may be old.
  const view = expected ?? viewOf(workload, config, services, requested.length === 0);
  const assign: Assign = (whom, addresses, families, isFirst) =>
    addresses.length > 0
      ? assignRequested(addresses, { workload: whom, config: families, mustBeNew: isFirst, view, meanwhile }, datastoreType, services)
      : assignAutomatic({ workload: whom, config: families, mustBeNew: isFirst, view, meanwhile }, services);
  if (isLauncherPod(workload.identity)) {
    const { assignToMachine } = await import("./kubevirt/add.ts");
    const assigned = await assignToMachine({ workload, network: request.network, requested, config, view }, assign, services);
    if (assigned !== undefined) return { result: resultOf(assigned.prefixes, assigned.hasRoutes), giveBack: assigned.giveBack };
  }
  const { prefixes, giveBack } = await assign(workload, requested, config, mustBeNew);
  return { result: resultOf(prefixes), giveBack };
}

function viewOf({ identity }: Workload, config: NetworkConfig, { allocator, node, env }: IpamServices, mayBeOld = true): View {
  return allocator.view({
    owner: { type: "host", name: node },
    namespace: identity.namespace,
    mustExist: chooseDatastore(config, env) === "kubernetes",
    mayBeOld,
  });
}

/** One route an address with the identical text, host bits kept (I§1.6 step 6). */
function resultOf(prefixes: readonly Prefix[], hasRoutes = true): CniResult {
  const texts = prefixes.map(formatPrefix);
  return { interfaces: [], ips: texts.map((address) => ({ address })), routes: hasRoutes ? texts.map((dst) => ({ dst })) : [], dns: {} };
}
