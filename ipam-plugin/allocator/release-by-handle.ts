/**
 * Release of everything a handle holds (I§4.1): what CNI DEL does, and what cleans up after operations that died.
 *
 * The handle is read first, then each of its blocks is written, then the handle is written at the revision that was read. So
 * whatever the handle counted has been looked at: addresses are freed, counts without addresses are gone, and grants that were
 * under way fail on the block (handle.ts). When the handle has changed meanwhile, all of it is done again.
 */
import { type Address, addressAt } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { holderOf, isEmpty, nextSequence, normalise, ordinalsOf, prefixOf, release, sequenceOf } from "./block.ts";
import { countedIn, putCounts } from "./handle.ts";
import { AGAIN, type Operation } from "./operation.ts";
import { hasOwners, unexpectedOwner } from "./owners.ts";
import { releaseIfDeselected } from "./release-affinity.ts";
import type { HandleReleaseOptions, ReleaseByHandleResult } from "./types.ts";

interface HandleRelease extends HandleReleaseOptions {
  readonly handle: string;
}

/** Every block is tried, whatever another one does; the first failure is thrown at the end. */
export async function releaseByHandle(operation: Operation, request: HandleRelease): Promise<ReleaseByHandleResult> {
  const { handle } = request;
  const released: Address[] = [];
  const emptied = new Map<string, Block>();
  let found = false;
  await operation.retry(`handle ${handle}`, async () => {
    const stored = await operation.datastore.handles.get(handle);
    if (stored === undefined) return { result: undefined };
    found = true;
    const counts: Record<string, number> = {};
    const outcomes = await Promise.allSettled(
      Object.entries(stored.value.blocks).map(async ([cidr, count]) => {
        const outcome = await releaseInBlock(operation, request, cidr, count);
        counts[cidr] = outcome.left;
        released.push(...outcome.released);
        if (outcome.emptied !== undefined) emptied.set(cidr, outcome.emptied);
      }),
    );
    const isDone = await putCounts(operation.datastore.handles, handle, stored, counts);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
    return isDone ? { result: undefined } : AGAIN;
  });
  for (const [cidr, { affinity }] of emptied) {
    if (affinity !== undefined && request.keepDeselected !== true) await releaseIfDeselected(operation, affinity, [cidr]);
  }
  return { found, released };
}

interface BlockOutcome {
  readonly released: readonly Address[];
  /** How many addresses the handle's object has to count in the block now. */
  readonly left: number;
  /** The block, when it stands empty now and has an owner. */
  readonly emptied?: Block;
}

function releaseInBlock(
  operation: Operation,
  { handle, sequenceNumber, owners, isTheirs }: HandleRelease,
  cidr: string,
  counted: number,
): Promise<BlockOutcome> {
  return operation.retry(`block ${cidr}`, async () => {
    const stored = await operation.datastore.blocks.get(cidr);
    if (stored === undefined) return { result: { released: [], left: 0 } };
    const block = stored.value;
    const held = ordinalsOf(block, handle);
    const wanted = held.filter(
      (ordinal) =>
        (sequenceNumber === undefined || sequenceOf(block, ordinal) === sequenceNumber) &&
        unexpectedOwner(holderOf(block, ordinal), owners) === undefined &&
        (isTheirs === undefined || hasOwners(holderOf(block, ordinal), isTheirs)),
    );
    const left = countedIn(block, handle, operation.datastore.traits) - wanted.length;
    try {
      if (wanted.length > 0) {
        const now = await releaseOrdinals(operation, stored, { ordinals: wanted });
        const prefix = prefixOf(cidr);
        const released = wanted.map((ordinal) => addressAt(prefix, ordinal));
        const emptied = now.affinity !== undefined && isEmpty(now) ? { emptied: now } : {};
        return { result: { released, left, ...emptied } };
      }
      // The handle counts what is not there: its writer died, or is about to write. Writing the block stops the latter.
      if (left !== counted) await operation.datastore.blocks.update(cidr, nextSequence(block, operation.clock.nowNs()), stored.revision);
      return { result: { released: [], left } };
    } catch (error) {
      if (isDatastoreFailure(error, "conflict", "not-found")) return AGAIN;
      throw error;
    }
  });
}

/** How ordinals are released. */
interface OrdinalRelease {
  readonly ordinals: readonly number[];
  /** Sequence number that they get while they cool down. */
  readonly newSequence?: bigint;
  /** The addresses were never in use: they need no cooldown. */
  readonly neverUsed?: boolean;
}

/** A release that long ago is over, whatever the cooldown. */
const LONG_AGO_MS = 0;

/**
 * Releases ordinals and writes the block at the revision it was read; an empty block without owner goes.
 * @returns the block as it is now
 * @throws DatastoreError `conflict`, `not-found`: nothing was released
 */
export async function releaseOrdinals(
  operation: Operation,
  { value, revision }: Versioned<Block>,
  { ordinals, newSequence, neverUsed = false }: OrdinalRelease,
): Promise<Block> {
  const { blocks } = operation.datastore;
  const cooldown = await operation.cooldownForRelease();
  const now = operation.clock.nowMs();
  const changed = normalise(release(value, ordinals, neverUsed ? LONG_AGO_MS : now, newSequence), cooldown, now);
  if (changed.affinity === undefined && isEmpty(changed)) {
    await blocks.delete(value.cidr, revision);
    return changed;
  }
  return (await blocks.update(value.cidr, nextSequence(changed, operation.clock.nowNs()), revision)).value;
}
