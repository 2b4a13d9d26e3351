/**
 * Releases what no pod uses any more: the pods are asked for once more, their records are blanked first (design, invariant 3), and the
 * allocator releases each allocation by handle and sequence number, so that one made since is left alone.
 */
import { formatAddress } from "../../lib/addresses/address.ts";
import { podEndpointKey } from "../../lib/workload/endpoint.ts";
import { type JudgedAllocation, mayStillUse } from "../judge/allocations.ts";
import type { DutyContext } from "./duty.ts";

type ReleaseContext = Pick<DutyContext, "live" | "datastore" | "allocator" | "log" | "onReleased">;

/** As many as kube-controllers releases at once (I§5.4). */
const BATCH = 10_000;

/**
 * @param allocations all of each handle that is named among them
 * @param isStillDue asked before each write: the requests before it take time, in which a node may come back
 * @returns how many were kept, because a pod or a virtual machine turned out to use them
 */
export async function releaseUnused(
  context: ReleaseContext,
  reason: "node" | "leak",
  allocations: readonly JudgedAllocation[],
  signal: AbortSignal,
  isStillDue: () => Promise<boolean> = async () => true,
): Promise<number> {
  const byHandle = Map.groupBy(allocations, ({ handle }) => handle);
  const free: JudgedAllocation[] = [];
  for (const group of byHandle.values()) {
    signal.throwIfAborted();
    // One address in use keeps all of its handle (I§5.4).
    if (await isUnused(context, group)) free.push(...group);
  }
  let released = 0;
  while (released < free.length && (await isStillDue())) {
    const batch = free.slice(released, released + BATCH);
    await release(context, reason, batch, signal);
    released += batch.length;
  }
  return allocations.length - released;
}

async function isUnused(context: ReleaseContext, group: readonly JudgedAllocation[]): Promise<boolean> {
  const asked = new Set<string>();
  for (const allocation of group) {
    if (!(await isMachineGone(context, allocation))) return false;
    for (const owner of allocation.pods) {
      const pod = await context.live.pod(owner.namespace, owner.name);
      if (mayStillUse(pod, owner, allocation.address)) return false;
      // A pod that has ended may still be recorded with the address.
      const isRecorded = pod?.isAnnotated === true && pod.containerId !== "" && allocation.handle.endsWith(pod.containerId);
      if (!isRecorded || asked.has(pod.uid)) continue;
      asked.add(pod.uid);
      await context.datastore.records.clear(podEndpointKey(owner.node, owner), pod.containerId);
    }
  }
  return true;
}

/** A virtual machine whose name is not known counts as there, and so does every one where KubeVirt cannot be asked. */
async function isMachineGone({ datastore, live }: ReleaseContext, { machine, namespace }: JudgedAllocation): Promise<boolean> {
  if (machine === undefined) return true;
  if (machine === "" || namespace === "" || !(await live.hasKubeVirt())) return false;
  const { instances, machines } = datastore.virtualMachines;
  const key = { namespace, name: machine };
  return (await instances.get(key)) === undefined && (await machines.get(key)) === undefined;
}

async function release(
  { allocator, log, onReleased }: ReleaseContext,
  reason: "node" | "leak",
  allocations: readonly JudgedAllocation[],
  signal: AbortSignal,
): Promise<void> {
  const options = allocations.map(({ address, block, handle, sequenceNumber }) => ({ address, block, handle, sequenceNumber }));
  const { done, unallocated, error } = await allocator.releaseIps(options, { signal });
  const released = done.length - unallocated.length;
  if (released > 0) {
    onReleased(reason, released);
    const free = new Set(unallocated.map(formatAddress));
    const carriedOut = new Set(done.map(({ address }) => formatAddress(address)));
    for (const { address, handle, node, pods } of allocations) {
      const text = formatAddress(address);
      if (!carriedOut.has(text) || free.has(text)) continue;
      const [owner] = pods;
      const whose = owner === undefined ? "" : `, of pod ${owner.namespace}/${owner.name}`;
      log.info(`released ${text} of handle ${handle} on node ${node}${whose}: ${WHY[reason]}`);
    }
  }
  if (error !== undefined) throw error;
}

const WHY = { node: "the node is gone", leak: "no pod uses it" } as const;
