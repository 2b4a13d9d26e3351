/** Claims blocks for owners and gives them up again. */

import { covers } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, succeeds } from "../../lib/datastore/errors.ts";
import type { AffinityState, Block, BlockAffinity, BlockOwner } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, isEmpty, isOwnedBy, newBlock, nextSequence, prefixOf, withoutOwner } from "./block.ts";
import type { Operation } from "./operation.ts";
import { findOverlap, overlapError } from "./overlap.ts";
import { enabledPools, selectsNode } from "./pools.ts";
import { AGAIN, type Try } from "./types.ts";

/** Says that the block belongs to another owner, or to nobody: our affinity was wrong and has been removed. */
export const NOT_OURS = "not-ours";

export interface Claim {
  readonly owner: BlockOwner;
  readonly cidr: string;
  /** The affinity as it was listed; absent: it does not exist, as far as we know. */
  readonly affinity?: Versioned<BlockAffinity> | undefined;
  /** The block was listed a moment ago, or was not there: what is tried first. */
  readonly expectBlock: boolean;
}

/**
 * Claims the block and returns it, its affinity confirmed. Safe against any other claim or release at the same time.
 *
 * @throws TortieError `blocks-overlap`; the affinity is gone then
 */
export function claimBlock(operation: Operation, claim: Claim): Promise<Versioned<Block> | typeof NOT_OURS> {
  let known = claim.affinity;
  let expectBlock = claim.expectBlock;
  return operation.retry(`block ${claim.cidr}`, async () => {
    try {
      return await attempt(operation, claim, known, expectBlock);
    } catch (error) {
      if (!isDatastoreFailure(error, "conflict", "not-found", "already-exists")) throw error;
      return AGAIN;
    } finally {
      known = undefined;
      expectBlock = true;
    }
  });
}

/** Claims a block that may as well be another one: a place that an existing block has addresses of counts as lost. */
export async function claimUnlessOverlapping(
  operation: Operation,
  claim: Claim,
  onOverlap: (error: TortieError) => void = () => {},
): Promise<Versioned<Block> | typeof NOT_OURS> {
  try {
    return await claimBlock(operation, claim);
  } catch (error) {
    if (!(error instanceof TortieError && error.word === "blocks-overlap")) throw error;
    onOverlap(error);
    // The next place is chosen from a list that has the block of the other size.
    operation.forgetBlocks();
    await operation.blocks();
    return NOT_OURS;
  }
}

async function attempt(
  operation: Operation,
  claim: Claim,
  known: Versioned<BlockAffinity> | undefined,
  expectBlock: boolean,
): Promise<Try<Versioned<Block> | typeof NOT_OURS>> {
  const { blocks } = operation.datastore;
  const affinity = known ?? (await createOrGet(operation, claim));
  if (affinity === undefined) return AGAIN;
  const block = expectBlock ? await blocks.get(claim.cidr) : undefined;
  if (block === undefined) return createBlock(operation, claim, affinity);
  if (!isOwnedBy(block.value, claim.owner)) {
    await removeAffinity(operation, affinity);
    return { result: NOT_OURS };
  }
  if (affinity.value.state === "confirmed") {
    if (!affinity.value.labelled) await putState(operation, affinity, "confirmed");
    return { result: block };
  }
  const pending = await asPending(operation, affinity);
  const again = nextSequence(block.value, operation.clock.nowNs());
  const written = await blocks.update(claim.cidr, again, block.revision);
  return (await confirm(operation, pending)) ? { result: written } : AGAIN;
}

async function createBlock(operation: Operation, claim: Claim, affinity: Versioned<BlockAffinity>): Promise<Try<Versioned<Block>>> {
  const pending = await asPending(operation, affinity);
  const { clock, datastore } = operation;
  const { cidr, owner } = claim;
  const other = await findOverlap(operation, cidr);
  if (other !== undefined) {
    await removeAffinity(operation, pending);
    throw overlapError(cidr, other);
  }
  // When it exists already, the next try finds out whose it is.
  const written = await datastore.blocks.create(cidr, newBlock(cidr, owner, clock.nowMs(), clock.nowNs()));
  if (await confirm(operation, pending)) return { result: written };
  // Without the affinity another claim may have listed nothing in its way: the block goes while nobody has an address of it.
  await succeeds(() => datastore.blocks.delete(cidr, written.revision), "conflict", "not-found");
  return AGAIN;
}

/** Makes or reads the affinity; `undefined`: it was there and has gone meanwhile. */
async function createOrGet(operation: Operation, { owner, cidr }: Claim): Promise<Versioned<BlockAffinity> | undefined> {
  const { affinities } = operation.datastore;
  try {
    return await affinities.create({ owner, cidr }, { owner, cidr, state: "pending", labelled: true });
  } catch (error) {
    if (!isDatastoreFailure(error, "already-exists")) throw error;
    return affinities.get({ owner, cidr });
  }
}

function asPending(operation: Operation, affinity: Versioned<BlockAffinity>): Promise<Versioned<BlockAffinity>> {
  const { state, labelled } = affinity.value;
  return state === "pending" && labelled ? Promise.resolve(affinity) : putState(operation, affinity, "pending");
}

/** Confirms the affinity. @returns whether it is confirmed now, by us or by another process of the same owner. */
async function confirm(operation: Operation, pending: Versioned<BlockAffinity>): Promise<boolean> {
  if (await succeeds(() => putState(operation, pending, "confirmed"), "conflict", "not-found")) return true;
  const now = await operation.datastore.affinities.get(pending.value);
  return now?.value.state === "confirmed";
}

/** Tells whether nothing has to be mended before the block is used. */
export function isReady({ state, labelled }: BlockAffinity): boolean {
  return state === "confirmed" && labelled;
}

/** Writes the state, and the labels with it. */
export function putState(
  operation: Operation,
  affinity: Versioned<BlockAffinity>,
  state: AffinityState,
): Promise<Versioned<BlockAffinity>> {
  return operation.datastore.affinities.update(affinity.value, { ...affinity.value, state, labelled: true }, affinity.revision);
}

/** Removes an affinity that has turned out wrong, unless another process has changed it. */
export async function removeAffinity(operation: Operation, affinity: Versioned<BlockAffinity>): Promise<void> {
  await succeeds(() => operation.datastore.affinities.delete(affinity.value, affinity.revision), "conflict", "not-found");
}

/** Writes the look-up labels on affinities that lack them (I§1.8). */
export async function upgradeHost(operation: Operation, owner: BlockOwner): Promise<number> {
  const { affinities } = operation.datastore;
  let mended = 0;
  for (const listed of await affinities.listUnlabelled()) {
    const { value } = listed;
    if (value.labelled || value.owner.type !== owner.type || value.owner.name !== owner.name) continue;
    let read: typeof listed | undefined = listed;
    await operation.retry(`affinity of ${owner.name} for ${value.cidr}`, async () => {
      const stored = read ?? (await affinities.get(value));
      read = undefined;
      if (stored === undefined || stored.value.labelled) return { result: undefined };
      if (!(await succeeds(() => putState(operation, stored, stored.value.state), "conflict", "not-found"))) return AGAIN;
      mended++;
      return { result: undefined };
    });
  }
  return mended;
}

export interface AffinityRelease {
  readonly owner: BlockOwner;
  readonly cidr: string;
  /** Refuses, with an error, a block that still has addresses. */
  readonly mustBeEmpty: boolean;
  /** The block must still be as it was seen, since any later write means that it is in use. */
  readonly sequenceNumber?: bigint;
}

/**
 * Takes the block from its owner. A block that still has addresses lives on without owner, unless it must be empty.
 * @returns false without an affinity: nothing was done
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
        if (wasMarked && affinity.value.state === "pendingDeletion") {
          await succeeds(() => putState(operation, affinity, "confirmed"), "conflict", "not-found");
        }
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
 * Marks the affinity for deletion, at a time when the block has been read already: a claim of the same owner takes the mark away
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

/** Lists those of the owner's blocks whose pool no longer selects the node. */
export async function deselectedBlocks(operation: Operation, owner: BlockOwner): Promise<readonly string[]> {
  const { affinities } = operation.datastore;
  const listed = [...(await affinities.listByOwner(owner, 4)), ...(await affinities.listByOwner(owner, 6))];
  const deselected: string[] = [];
  for (const { value } of listed) if (await isDeselected(operation, owner, value.cidr)) deselected.push(value.cidr);
  return deselected;
}

async function isDeselected(operation: Operation, owner: BlockOwner, cidr: string): Promise<boolean> {
  if (owner.type !== "host") return false;
  const prefix = prefixOf(cidr);
  const pool = (await enabledPools(operation, familyOf(cidr))).find((candidate) => covers(candidate.prefix, prefix));
  if (pool === undefined) return false;
  return !(await selectsNode(pool.pool, () => operation.nodeLabels(owner)));
}
