/**
 * Serves IPAM GC: releases the addresses of attachments that the runtime no longer knows (CNI 1.1.0), of this network and this node only.
 * Addresses of virtual machines, tunnels and legacy handles have other guardians and are never touched. Blocks that stand empty in a pool
 * that is not for this node any more are given up.
 */

import { attachmentsToKeep } from "../lib/config/decode.ts";
import type { Block, Handle } from "../lib/datastore/resources.ts";
import type { NamespacedName } from "../lib/kubernetes/objects.ts";
import { workloadHandleId } from "../lib/workload/identity.ts";
import { isReadable } from "./allocator/block.ts";
import type { HeldAddress } from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";
import { LONE_COLLECTION } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { withNodeLock } from "./node-lock.ts";

/** Matches no allocation: sequence numbers count up from a time, so that a release by it only mends what the handle counts. */
const NO_ALLOCATION = -1n;

/**
 * Goes on after failures and throws the first.
 *
 * @throws TortieError `attachments-missing`
 */
export async function ipamGc(call: IpamCall, host: IpamHost): Promise<void> {
  const { request, config, nodeName, collection = LONE_COLLECTION } = call;
  const validAttachments = attachmentsToKeep(config);
  const isValid = new Set(validAttachments.map(({ containerID }) => containerID));
  const errors: unknown[] = [];
  await withNodeLock(call, host, async (signal) => {
    const unlisted = (await host.datastore.handles.list()).flatMap(({ value: handle }): Unlisted[] => {
      const container = containerOf(handle.id, request.network);
      return container === undefined || isValid.has(container) ? [] : [{ handle, container }];
    });
    // One list of all blocks tells the handles of other nodes, which would cost two requests each.
    const blocks = unlisted.length === 0 ? [] : await host.datastore.blocks.list();
    const strangers = new Set(blocks.filter(({ value }) => !mayConcern(value, nodeName)).map(({ value }) => value.cidr));
    for (const one of unlisted) {
      const cidrs = Object.keys(one.handle.blocks);
      if (cidrs.length > 0 && cidrs.every((cidr) => strangers.has(cidr))) continue;
      try {
        await collection.remove({ containerId: one.container }, () => collect(one, call, host, signal));
      } catch (error) {
        errors.push(error);
      }
    }
    try {
      await host.allocator.releaseDeselected({ type: "host", name: nodeName }, { signal });
    } catch (error) {
      errors.push(error);
    }
  });
  if (errors.length > 0) throw errors[0];
}

interface Unlisted {
  readonly handle: Handle;
  readonly container: string;
}

/** Tells whether an address of this node, or a count that a killed ADD of this node left, may be in the block. */
function mayConcern(block: Block, node: string): boolean {
  const { affinity } = block;
  if (affinity === undefined || affinity.name === node || !isReadable(block)) return true;
  return block.attributes.some(({ activeOwner }) => activeOwner?.node === node);
}

async function collect({ handle, container }: Unlisted, call: IpamCall, host: IpamHost, signal: AbortSignal): Promise<void> {
  const { allocator } = host;
  const addresses = (await allocator.addressesByHandle(handle.id)) ?? [];
  if (addresses.length === 0) {
    // What a killed ADD leaves: a count without an address. Another node's ADD looks the same for an instant, so nothing is released.
    if (await isOnOwnBlocks(handle, call.nodeName, host))
      await allocator.releaseByHandle(handle.id, { sequenceNumber: NO_ALLOCATION }, { signal });
    return;
  }
  if (!addresses.every((address) => isOurs(address, call.nodeName))) return;
  await clearAnnotations(addresses, container, call.nodeName, host);
  await allocator.releaseByHandle(handle.id, {}, { signal });
  call.log.info(`released handle ${handle.id}, which the runtime does not know any more`);
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
 * Returns the container of a handle of this network. A container id with a "." cannot be told from a longer network name, and `.vmi.` marks a
 * virtual machine (I§2.5): both are `undefined`, their own DEL releases them.
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

async function isOnOwnBlocks(handle: Handle, nodeName: string, { datastore }: IpamHost): Promise<boolean> {
  for (const cidr of Object.keys(handle.blocks)) {
    const owner = (await datastore.blocks.get(cidr))?.value.affinity;
    if (owner !== undefined && (owner.type !== "host" || owner.name !== nodeName)) return false;
  }
  return true;
}
