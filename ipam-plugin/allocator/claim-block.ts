/**
 * How an owner gets a block: the affinity is written as pending, the block is created, the affinity is confirmed (I§3.6).
 * A process that dies in between leaves a pending affinity, which the owner's next claim completes or removes.
 *
 *   (none) ── create ──▶ pending ── block is ours ──▶ confirmed ── release ──▶ pendingDeletion ──▶ (none)
 *               ▲                                                                    │
 *               └──────────── claimed again: pending, block written once more ◀──────┘
 *
 * Writing the block once more is what stops a releaser that has seen the block empty and is about to delete it.
 */
import type { BlockOwner, Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { AffinityState, Block, BlockAffinity } from "../../lib/datastore/resources.ts";
import { isOwnedBy, newBlock, nextSequence } from "./block.ts";
import { AGAIN, type Operation, type Try } from "./operation.ts";

/** The block belongs to another owner, or to none: our affinity was wrong and has been removed. */
export const NOT_OURS = "not-ours";

export interface Claim {
  readonly owner: BlockOwner;
  readonly cidr: string;
  /** The affinity as it was listed; absent: there is none, as far as we know. */
  readonly affinity?: Versioned<BlockAffinity> | undefined;
  /** The block was listed a moment ago, or was not there: what is tried first. */
  readonly expectBlock: boolean;
}

/** The owner's block, its affinity confirmed. Safe against any other claim or release at the same time. */
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
  const { clock } = operation;
  const fresh = newBlock(claim.cidr, claim.owner, clock.nowMs(), clock.nowNs());
  // When it exists already, the next try finds out whose it is.
  const written = await operation.datastore.blocks.create(claim.cidr, fresh);
  return (await confirm(operation, pending)) ? { result: written } : AGAIN;
}

/** `undefined`: it was there and has gone meanwhile. */
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

/** Whether the affinity is confirmed now, by us or by another process of the same owner. */
async function confirm(operation: Operation, pending: Versioned<BlockAffinity>): Promise<boolean> {
  try {
    await putState(operation, pending, "confirmed");
    return true;
  } catch (error) {
    if (!isDatastoreFailure(error, "conflict", "not-found")) throw error;
    const now = await operation.datastore.affinities.get(pending.value);
    return now?.value.state === "confirmed";
  }
}

/** Nothing has to be mended before the block is used. */
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
  try {
    await operation.datastore.affinities.delete(affinity.value, affinity.revision);
  } catch (error) {
    if (!isDatastoreFailure(error, "conflict", "not-found")) throw error;
  }
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
      try {
        await putState(operation, stored, stored.value.state);
        mended++;
        return { result: undefined };
      } catch (error) {
        if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
        throw error;
      }
    });
  }
  return mended;
}
