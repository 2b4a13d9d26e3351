/**
 * How an owner loses a block, or all of its blocks: the affinity is marked, the block is deleted or written without
 * an owner, the affinity is removed (I§3.6, I§4.3, I§1.8).
 */
import { covers } from "../../lib/addresses/address.ts";
import type { BlockOwner, Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block, BlockAffinity } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, isEmpty, isOwnedBy, nextSequence, prefixOf, withoutOwner } from "./block.ts";
import { putState, removeAffinity } from "./claim-block.ts";
import { AGAIN, type Operation, type Try } from "./operation.ts";
import { enabledPools, selectsNode } from "./pools.ts";

interface AffinityRelease {
  readonly owner: BlockOwner;
  readonly cidr: string;
  readonly mustBeEmpty: boolean;
  /** The block must still be as it was seen, since any later write means that it is in use. */
  readonly sequenceNumber?: bigint;
}

/**
 * Takes the block from its owner. A block that still has addresses lives on without owner, unless it must be empty.
 * @returns false when there is no affinity: nothing was done
 * @throws TortieError `block-not-empty`, `block-claimed`
 */
export function releaseAffinity(operation: Operation, release: AffinityRelease): Promise<boolean> {
  let wasMarked = false;
  return operation.retry(`block ${release.cidr}`, async () => {
    try {
      const { affinities, blocks } = operation.datastore;
      const affinity = await affinities.get(release);
      const block = await blocks.get(release.cidr);
      if (affinity === undefined) return { result: false };
      if (block === undefined) {
        await removeAffinity(operation, affinity);
        return { result: true };
      }
      try {
        await refuse(operation, release, affinity, block);
      } catch (error) {
        // Our mark of an earlier try must not stay: routing goes on by it, and the owner would have to claim the block again.
        if (wasMarked && affinity.value.state === "pendingDeletion") await unmark(operation, affinity);
        throw error;
      }
      const marked = await mark(operation, affinity);
      if (marked === undefined) return AGAIN;
      wasMarked = true;
      return await giveUp(operation, release, marked, block);
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict", "not-found")) throw error;
      return AGAIN;
    }
  });
}

/**
 * The affinity marked for deletion, at a time when the block has been read already: a claim of the same owner takes the mark away
 * before it writes the block, so what is about to happen to the block fails if such a claim came between.
 * @returns `undefined` when one did
 */
async function mark(operation: Operation, affinity: Versioned<BlockAffinity>): Promise<Versioned<BlockAffinity> | undefined> {
  if (affinity.value.state !== "pendingDeletion") return putState(operation, affinity, "pendingDeletion");
  const now = await operation.datastore.affinities.get(affinity.value);
  return now?.revision === affinity.revision ? now : undefined;
}

async function refuse(
  operation: Operation,
  { owner, cidr, mustBeEmpty, sequenceNumber }: AffinityRelease,
  affinity: Versioned<BlockAffinity>,
  { value: block }: Versioned<Block>,
): Promise<void> {
  if (!isOwnedBy(block, owner)) {
    await removeAffinity(operation, affinity);
    throw new TortieError("block-claimed", `block ${cidr} does not belong to ${owner.type}:${owner.name} any more`);
  }
  if (sequenceNumber !== undefined && block.sequenceNumber !== sequenceNumber) {
    throw new TortieError("block-claimed", `block ${cidr} has been written since it was seen empty`);
  }
  if (mustBeEmpty && !isEmpty(await operation.cooled(block))) {
    throw new TortieError("block-not-empty", `block ${cidr} is not empty`);
  }
}

async function giveUp(
  operation: Operation,
  { cidr }: AffinityRelease,
  marked: Versioned<BlockAffinity>,
  block: Versioned<Block>,
): Promise<Try<boolean>> {
  const { blocks } = operation.datastore;
  const current = await operation.cooled(block.value);
  if (isEmpty(current)) await blocks.delete(cidr, block.revision);
  else await blocks.update(cidr, nextSequence(withoutOwner(current), operation.clock.nowNs()), block.revision);
  await removeAffinity(operation, marked);
  return { result: true };
}

async function unmark(operation: Operation, affinity: Versioned<BlockAffinity>): Promise<void> {
  try {
    await putState(operation, affinity, "confirmed");
  } catch (error) {
    if (!isDatastoreFailure(error, "conflict", "not-found")) throw error;
  }
}

/**
 * Gives up those of the owner's blocks that are empty and whose pool no longer selects the node. Refusals and
 * failures of the store are ignored, so that they do not stop the request that found the blocks.
 */
export async function releaseIfDeselected(operation: Operation, owner: BlockOwner, cidrs: readonly string[]): Promise<void> {
  for (const cidr of cidrs) {
    try {
      if (await isDeselected(operation, owner, cidr)) await releaseAffinity(operation, { owner, cidr, mustBeEmpty: true });
    } catch (error) {
      if (!(error instanceof TortieError)) throw error;
    }
  }
}

/** The same for all blocks of the owner, for a GC, which has no request of its own. */
export async function releaseDeselected(operation: Operation, owner: BlockOwner): Promise<void> {
  for (const family of [4, 6] as const) {
    const listed = await operation.datastore.affinities.listByOwner(owner, family);
    const cidrs = listed.map(({ value }) => value.cidr);
    await releaseIfDeselected(operation, owner, cidrs);
  }
}

async function isDeselected(operation: Operation, owner: BlockOwner, cidr: string): Promise<boolean> {
  if (owner.type !== "host") return false;
  const prefix = prefixOf(cidr);
  const pool = (await enabledPools(operation, familyOf(cidr))).find((candidate) => covers(candidate.prefix, prefix));
  if (pool === undefined) return false;
  return !(await selectsNode(pool.pool, () => operation.nodeLabels(owner)));
}
