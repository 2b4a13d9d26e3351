/**
 * Serves IPAM GC: releases the addresses of attachments that the runtime no longer knows (CNI 1.1.0), of this network and this node only.
 * Addresses of virtual machines, tunnels and legacy handles have other guardians and are never touched. Blocks that stand empty in a pool
 * that is not for this node any more are given up.
 */

import { attachmentsToKeep } from "../lib/config/decode.ts";
import type { Versioned } from "../lib/datastore/datastore.ts";
import { type Block, type Handle, sanitised } from "../lib/datastore/resources.ts";
import type { NamespacedName } from "../lib/kubernetes/objects.ts";
import { Lane } from "../lib/system/lane.ts";
import { workloadHandleId } from "../lib/workload/identity.ts";
import { isReadable } from "./allocator/block.ts";
import { heldIn } from "./allocator/lookup.ts";
import type { HeldAddress } from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";
import { LONE_COLLECTION } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { STEP_LIMIT_MS, stepLock } from "./node-lock.ts";

/** Handles that are collected at once: those that have addresses of one block share a write of it. */
const AT_ONCE = 64;

/**
 * Goes on after failures and throws the first. Takes the node's lock for each write of a block and for each block that is given up, never
 * longer: an ADD waits for one of them at most.
 *
 * @throws TortieError `attachments-missing`
 */
export async function ipamGc(call: IpamCall, host: IpamHost): Promise<void> {
  const { nodeName, collection = LONE_COLLECTION } = call;
  const unlisted = await unlistedHandles(call, host);
  // One list of all blocks says what every handle holds, which would cost two requests each.
  const listed = unlisted.length === 0 ? [] : await host.datastore.blocks.list();
  const blocks = new Map(listed.map((block) => [block.value.cidr, block]));
  const lock = stepLock(call, host);
  const allocator = host.allocator.sharingWrites(lock);
  const lane = new Lane({ running: AT_ONCE });
  const outcomes = await Promise.allSettled(
    unlisted
      .filter(({ handle }) => mayConcern(handle.value, blocks, nodeName))
      .map((one) =>
        lane.run(call.signal, () =>
          collection.remove({ containerId: one.container }, () => collect(one, blocks, call, { ...host, allocator })),
        ),
      ),
  );
  const deselected = await Promise.allSettled([
    host.allocator.releaseDeselected({ type: "host", name: nodeName }, async (work) => {
      using _held = await lock();
      await work(host.deadline(STEP_LIMIT_MS));
    }),
  ]);
  for (const outcome of [...outcomes, ...deselected]) if (outcome.status === "rejected") throw outcome.reason;
}

interface Unlisted {
  readonly handle: Versioned<Handle>;
  readonly container: string;
}

type Blocks = ReadonlyMap<string, Versioned<Block>>;

async function unlistedHandles({ request, config, unplugged = [] }: IpamCall, { datastore }: IpamHost): Promise<readonly Unlisted[]> {
  const { network } = request;
  const handlesOf = (containers: readonly string[]) =>
    new Map(containers.map((container) => [sanitised(workloadHandleId(network, container)), container]));
  const listed = handlesOf(attachmentsToKeep(config).map(({ containerID }) => containerID));
  const known = handlesOf(unplugged);
  return (await datastore.handles.list()).flatMap((handle): Unlisted[] => {
    const id = sanitised(handle.value.id);
    const container = known.get(id) ?? containerOf(id, network);
    return container === undefined || listed.has(id) ? [] : [{ handle, container }];
  });
}

/** Tells whether an address of this node, or a count that a killed ADD of this node left, may be in a block of the handle. */
function mayConcern({ blocks: counts }: Handle, blocks: Blocks, node: string): boolean {
  const cidrs = Object.keys(counts);
  return cidrs.length === 0 || cidrs.some((cidr) => mayHoldOf(blocks.get(cidr)?.value, node));
}

function mayHoldOf(block: Block | undefined, node: string): boolean {
  if (block?.affinity === undefined || block.affinity.name === node || !isReadable(block)) return true;
  return block.attributes.some(({ activeOwner }) => activeOwner?.node === node);
}

async function collect({ handle, container }: Unlisted, blocks: Blocks, call: IpamCall, host: IpamHost): Promise<void> {
  const { id, blocks: counts } = handle.value;
  const addresses = Object.keys(counts).flatMap((cidr) => heldIn(blocks.get(cidr), id));
  // What a killed ADD leaves: a count without an address. Another node's ADD looks the same for an instant, so no address is released.
  const isCollected =
    addresses.length > 0 ? addresses.every((address) => isOurs(address, call.nodeName)) : isOnOwnBlocks(counts, blocks, call);
  if (!isCollected) return;
  await clearAnnotations(addresses, container, call.nodeName, host);
  // Only what was judged: the container may have been added again since.
  const sequenceNumbers = new Set(addresses.map(({ sequenceNumber }) => sequenceNumber));
  const options = { sequenceNumbers, listed: handle, keepDeselected: true };
  const { released } = await host.allocator.releaseByHandle(id, options, { signal: host.deadline(STEP_LIMIT_MS) });
  if (released.length > 0) call.log.info(`released handle ${id}, which the runtime does not know any more`);
}

/**
 * Clears annotations. Felix and other nodes read those of a pod, so an address is free only when they name it no more (invariant 3). The
 * pods are those that the addresses were given to: the plugins' account may not list pods (C§8.2).
 */
async function clearAnnotations(addresses: readonly HeldAddress[], container: string, nodeName: string, host: IpamHost): Promise<void> {
  const pods = new Map<string, NamespacedName>();
  for (const { activeOwner } of addresses) {
    const { namespace = "", pod: name = "" } = activeOwner;
    if (name !== "") pods.set(`${namespace}/${name}`, { namespace, name });
  }
  for (const pod of pods.values()) await host.clearAnnotations(pod, container, nodeName);
}

/**
 * Returns the container of a handle of this network whose attachment nobody knows. A container id with a "." cannot be told from a longer
 * network name, and `.vmi.` marks a virtual machine (I§2.5): both are `undefined`, their own DEL releases them.
 */
function containerOf(handle: string, network: string): string | undefined {
  const prefix = workloadHandleId(network, "");
  if (!handle.startsWith(prefix)) return undefined;
  const container = handle.slice(prefix.length);
  return container === "" || container.includes(".") ? undefined : container;
}

/** Tells whether an ADD on this node gave it out: not a tunnel's, a virtual machine's, or one under the legacy `<namespace>.<pod>`. */
function isOurs({ handle, activeOwner }: HeldAddress, node: string): boolean {
  const { namespace, pod, type } = activeOwner;
  if (activeOwner["vmi-name"] !== undefined || type !== undefined) return false;
  return activeOwner.node === node && handle !== `${namespace}.${pod}`;
}

function isOnOwnBlocks(counts: Handle["blocks"], blocks: Blocks, { nodeName }: IpamCall): boolean {
  return Object.keys(counts).every((cidr) => {
    const owner = blocks.get(cidr)?.value.affinity;
    return owner === undefined || (owner.type === "host" && owner.name === nodeName);
  });
}
