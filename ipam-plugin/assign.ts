/** Takes addresses for one attachment: one of each family that is switched on, or those asked for by name (I§1.6 steps 5 and 6). */

import { type Address, hostPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { DatastoreError, isDatastoreFailure, isRefusal } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { closeFile, O_CREAT, O_WRONLY, openMakingDirectories, statusOf } from "../lib/system/files.ts";
import { shortageText } from "./allocator/assign.ts";
import { isGone } from "./allocator/release-ips.ts";
import {
  type AssignedAddress,
  type AutoAssignResult,
  type FamilyAssignment,
  HandleExistsError,
  type ReleaseOptions,
} from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { withNodeLock } from "./node-lock.ts";
import { ownerAttributes, soleOwner, type Workload } from "./workload.ts";

/** Has addresses in the order of the result, and the way to give back exactly what this call took. */
export interface Assignment {
  readonly prefixes: readonly Prefix[];
  /** Some of them were the handle's before (I§3.9). */
  readonly isShared: boolean;
  giveBack(): Promise<void>;
}

/** Says for whom and how an address is taken. */
export interface AssignmentRequest {
  readonly workload: Workload;
  readonly config: NetworkConfig;
  /** The handle must not exist: HandleExistsError, and nothing taken, when it does. */
  readonly mustBeNew: boolean;
}

/** Takes addresses from the pools: those named, or without names one of each family that the configuration switches on. */
export type Assign = (workload: Workload, requested: readonly Address[], config: NetworkConfig, mustBeNew: boolean) => Promise<Assignment>;

/**
 * Assigns both families or none; printed with their blocks' prefix lengths, IPv4 first.
 *
 * A handle that must be new is looked for as well when no address is left: it may hold the last ones.
 *
 * @throws TortieError `addresses-exhausted` when a family got none, and what stopped the allocator; HandleExistsError
 */
export async function assignAutomatic(
  { workload, config, mustBeNew }: AssignmentRequest,
  call: IpamCall,
  host: IpamHost,
): Promise<Assignment> {
  const { identity, handle, machineAttributes } = workload;
  const { allocator, datastore, clock } = host;
  const { ipam } = config;
  // The pools of a family that is switched off are looked at too: a wrong entry is wrong (recording pools-wrong-family-off).
  const entries = { ipv4: ipam.ipv4Pools ?? [], ipv6: ipam.ipv6Pools ?? [] };
  const count4 = ipam.assignIpv4 ? 1 : 0;
  const count6 = ipam.assignIpv6 ? 1 : 0;
  if (count4 + count6 === 0 && entries.ipv4.length + entries.ipv6.length === 0) {
    return { prefixes: [], isShared: false, giveBack: async () => {} };
  }
  const attributes = ownerAttributes(workload, clock.nowNs());
  const assigned = await withNodeLock(call, host, (signal) =>
    // Pools, reservations and affinities decide what is taken, so none of them is read before the lock is taken (design, invariant 10).
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
  if (mustBeNew && isRefusal(failure) && (await exists(handle, host))) throw new HandleExistsError(handle);
  throw failure;
}

/** Tells whether the handle exists; false when that cannot be told, because another error is about to be reported. */
async function exists(handle: string, { datastore }: IpamHost): Promise<boolean> {
  try {
    return (await datastore.handles.get(handle)) !== undefined;
  } catch (error) {
    if (error instanceof DatastoreError) return false;
    throw error;
  }
}

/** Returns the first thing that is missing, an error before a shortage. */
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

/**
 * Assigns addresses asked for by name, with `IP=` of CNI_ARGS or the `ips` capability: all of them or none, IPv4 first; printed as single
 * addresses.
 * @throws what `Allocator.assignIp` refuses
 */
export async function assignRequested(
  addresses: readonly Address[],
  { workload, mustBeNew }: Omit<AssignmentRequest, "config">,
  call: IpamCall,
  host: IpamHost,
): Promise<Assignment> {
  const { allocator, datastore, clock } = host;
  const { identity, handle, machineAttributes } = workload;
  const attributes = ownerAttributes(workload, clock.nowNs());
  const taken: ReleaseOptions[] = [];
  const giveBack = async (): Promise<void> => {
    const { error } = await allocator.releaseIps(taken);
    // Another workload has it now: nothing of ours is left to give back.
    if (error !== undefined && !isGone(error)) throw error;
  };

  await using undo = new AsyncDisposableStack();
  undo.defer(giveBack);
  const inOrder = addresses.toSorted((a, b) => a.family - b.family);
  await withNodeLock(call, host, async (signal) => {
    // One operation: the pools are listed once for both families, and not before the lock is taken (design, invariant 10).
    const operation = allocator.begin({ signal });
    if (datastore.traits.poolsFrom === "cluster") await upgradeLabelsOnce(call, host, signal);
    for (const address of inOrder) {
      const assigned = await allocator.assignIp(
        {
          address,
          handle,
          attributes,
          owner: { type: "host", name: identity.node },
          use: "Workload",
          perHandleLimit: machineAttributes === undefined ? 0 : 1,
          mustBeNew: mustBeNew && taken.length === 0,
        },
        operation,
      );
      if (!assigned.isReused)
        taken.push({ address, block: assigned.block, handle, sequenceNumber: assigned.sequenceNumber, ...soleOwner(workload, attributes) });
    }
  });
  undo.move();
  return { prefixes: inOrder.map(hostPrefix), isShared: taken.length < inOrder.length, giveBack };
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

/**
 * Tries again, with growing pauses, while others write the same affinities. A store that is away is not waited for here: its client has
 * waited already, and the node's lock is held meanwhile.
 *
 * @throws TortieError `datastore-unavailable` when the time is over, or at once when waiting cannot help
 */
export async function upgradeLabelsOnce(
  { nodeName, log }: Pick<IpamCall, "nodeName" | "log">,
  host: IpamHost,
  signal: AbortSignal,
): Promise<void> {
  const marker = host.upgradeMarker;
  if (statusOf(marker) !== undefined) return;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      await host.allocator.upgradeHost({ type: "host", name: nodeName }, { signal });
      break;
    } catch (error) {
      if (isDatastoreFailure(error, "conflict") && !signal.aborted) await host.sleep(pause, signal);
      else {
        throw new TortieError("datastore-unavailable", `failed to upgrade IPAM database: ${messageOf(error)}`, { cause: error });
      }
    }
  }
  try {
    closeFile(openMakingDirectories(marker, O_WRONLY | O_CREAT, 0o644));
  } catch (error) {
    // The next ADD does it again, which is harmless.
    log.error(`cannot write ${marker}: ${messageOf(error)}`);
  }
}
