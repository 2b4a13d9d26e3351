/** Addresses asked for by name: `IP=` of CNI_ARGS, or the `ips` capability (I§1.6 step 5). */

import { type Address, hostPrefix } from "../lib/addresses/address.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { closeFile, directoryOf, makeDirectories, O_CREAT, O_WRONLY, openFile, statusOf } from "../lib/system/files.ts";
import type { Assignment, AssignmentRequest } from "./add.ts";
import { isGone } from "./allocator/release-ips.ts";
import type { ReleaseOptions } from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";
import type { IpamNode } from "./node.ts";
import { withNodeLock } from "./node-lock.ts";
import { ownerAttributes, soleOwner } from "./workload.ts";

/** All of them or none, IPv4 first; printed as single addresses. @throws what `Allocator.assignIp` refuses */
export async function assignRequested(
  addresses: readonly Address[],
  { workload, mustBeNew }: Omit<AssignmentRequest, "config">,
  call: IpamCall,
  node: IpamNode,
): Promise<Assignment> {
  const { allocator, datastore, clock } = node;
  const { identity, handle, machineAttributes } = workload;
  const attributes = ownerAttributes(workload, clock.nowNs());
  const taken: ReleaseOptions[] = [];
  const giveBack = async (): Promise<void> => {
    const { error } = await allocator.releaseIps(taken);
    // Another workload has it by now: nothing of ours is left to give back.
    if (error !== undefined && !isGone(error)) throw error;
  };

  await using undo = new AsyncDisposableStack();
  undo.defer(giveBack);
  const inOrder = addresses.toSorted((a, b) => a.family - b.family);
  await withNodeLock(call, node, async (signal) => {
    // One operation: the pools are listed once for both families, and not before the lock is had (design, invariant 10).
    const operation = allocator.begin({ signal });
    if (datastore.traits.poolsFrom === "cluster") await upgradeLabelsOnce(call, node, signal);
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
  node: IpamNode,
  signal: AbortSignal,
): Promise<void> {
  const marker = node.upgradeMarker;
  if (statusOf(marker) !== undefined) return;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      await node.allocator.upgradeHost({ type: "host", name: nodeName }, { signal });
      break;
    } catch (error) {
      if (isDatastoreFailure(error, "conflict") && !signal.aborted) await node.sleep(pause, signal);
      else {
        throw new TortieError("datastore-unavailable", `failed to upgrade IPAM database: ${messageOf(error)}`, { cause: error });
      }
    }
  }
  try {
    makeDirectories(directoryOf(marker), 0o755);
    closeFile(openFile(marker, O_WRONLY | O_CREAT, 0o644));
  } catch (error) {
    // The next ADD does it again, which is harmless.
    log.error(`cannot write ${marker}: ${messageOf(error)}`);
  }
}
