/**
 * Keeps the index from a handle to its blocks (I§2.5). Two rules make it safe to rely on:
 *
 * 1. A handle counts an address before the block grants it, and after the block has freed it: its count never undercuts what
 *    the block records (I§5.2). A grant without a handle would be an address that no DEL can find.
 * 2. A count is lowered only by a compare-and-swap on a revision that was read before the block was written; when another write came
 *    between, `settle` finds out what is true. Lowering a count without that check could take away another process's claim.
 */
import type { Handles, Traits, Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, succeeds } from "../../lib/datastore/errors.ts";
import { type Block, type Handle, sanitised } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, nextSequence, ordinalsOf } from "./block.ts";
import type { Operation } from "./operation.ts";
import { AGAIN, HandleExistsError } from "./types.ts";

/** Describes a handle on whose behalf addresses are taken, as far as one request knows it. */
export interface Holder {
  readonly handle: string;
  /** Most addresses a family; 0 for no limit. */
  readonly limit: number;
  /** Holds the handle as this request last read or wrote it: saves reading it again. */
  known: Versioned<Handle> | undefined;
  /** Demands that no process has made it before; holds until this request has made it. */
  mustBeNew: boolean;
}

/** Has a count that was raised, and what is needed to lower it again. */
export interface Hold {
  readonly handle: string;
  readonly cidr: string;
  readonly count: number;
  readonly stored: Versioned<Handle>;
}

/** Says that the handle holds as many addresses of the family as it may (I§3.9). */
export const AT_LIMIT = "at-limit";

/**
 * Raises the count of a block, which must have been read before: another process may have written a later
 * state of the block to stop this very grant (`settle`).
 * @throws HandleExistsError when the handle is there and must be new
 */
export function hold(operation: Operation, holder: Holder, cidr: string, count: number): Promise<Hold | typeof AT_LIMIT> {
  const { handles } = operation.datastore;
  const { handle, limit, known } = holder;
  // Most handles are new: trying to create comes before looking.
  let current = known;
  let isFirst = known === undefined;
  return operation.retry<Hold | typeof AT_LIMIT>(`handle ${handle}`, async () => {
    try {
      if (current === undefined && !isFirst) current = await handles.get(handle);
      isFirst = false;
      if (limit > 0 && countOf(current?.value, familyOf(cidr)) + count > limit) return { result: AT_LIMIT };
      const blocks = { ...current?.value.blocks, [cidr]: (current?.value.blocks[cidr] ?? 0) + count };
      const stored =
        current === undefined
          ? await handles.create(handle, { id: handle, blocks })
          : await handles.update(handle, { ...current.value, blocks }, current.revision);
      holder.known = stored;
      holder.mustBeNew = false;
      return { result: { handle, cidr, count, stored } };
    } catch (error) {
      // Not to be taken for a block that cannot be written: no other block would help.
      if (isDatastoreFailure(error, "invalid")) throw new TortieError("datastore-object-invalid", error.message, { cause: error });
      if (!isDatastoreFailure(error, "already-exists", "conflict", "not-found")) throw error;
      if (holder.mustBeNew && isDatastoreFailure(error, "already-exists")) throw new HandleExistsError(handle);
      current = undefined;
      return AGAIN;
    }
  });
}

/** Takes back a count whose block was certainly not written; no abort stops it. */
export async function undoHold(operation: Operation, { handle, cidr, count, stored }: Hold): Promise<void> {
  const left = (stored.value.blocks[cidr] ?? 0) - count;
  const isUndone = await putCounts(operation.datastore.handles, handle, stored, { [cidr]: left });
  if (!isUndone) await settle(operation.withoutSignal(), handle, cidr);
}

/**
 * Makes the count of one block what the block records. Grants that were under way when the handle was read are cut off by writing
 * the block once more: their compare-and-swap fails, and they start over.
 */
export async function settle(operation: Operation, handle: string, cidr: string): Promise<void> {
  const { handles, blocks, traits } = operation.datastore;
  await operation.retry(`handle ${handle}`, async () => {
    const stored = await handles.get(handle);
    const block = await blocks.get(cidr);
    const held = block === undefined ? 0 : countedIn(block.value, handle, traits);
    if ((stored?.value.blocks[cidr] ?? 0) === held) {
      // A handle that was raised before the block was read may agree with it by chance.
      const now = await handles.get(handle);
      return now?.revision === stored?.revision ? { result: undefined } : AGAIN;
    }
    try {
      if (stored === undefined) {
        await handles.create(handle, { id: handle, blocks: { [cidr]: held } });
        return { result: undefined };
      }
      if (block !== undefined) await blocks.update(cidr, nextSequence(block.value, operation.clock.nowNs()), block.revision);
    } catch (error) {
      if (isDatastoreFailure(error, "conflict", "not-found", "already-exists")) return AGAIN;
      throw error;
    }
    return (await putCounts(handles, handle, stored, { [cidr]: held })) ? { result: undefined } : AGAIN;
  });
}

/**
 * Writes new counts over a handle as it was read; a count of 0 removes the block, the last block removes the handle.
 * @returns false when the handle is not what it was
 */
export async function putCounts(
  handles: Handles,
  handle: string,
  stored: Versioned<Handle>,
  counts: Readonly<Record<string, number>>,
): Promise<boolean> {
  const blocks = Object.fromEntries(Object.entries({ ...stored.value.blocks, ...counts }).filter(([, count]) => count > 0));
  const isEmpty = Object.keys(blocks).length === 0;
  if (!isEmpty && Object.entries(counts).every(([cidr, count]) => (stored.value.blocks[cidr] ?? 0) === count)) return true;
  const write = async () => {
    if (isEmpty) await handles.delete(handle, stored.revision);
    else await handles.update(handle, { ...stored.value, blocks }, stored.revision);
  };
  return succeeds(write, "conflict", "not-found");
}

/**
 * Counts how many addresses of a block the object of a handle has to count: where ids that differ in case are one object, those of all of them,
 * or releasing one id's would make the others' untraceable (recording handle-case-collision).
 */
export function countedIn(block: Block, handle: string, { foldsHandleCase }: Pick<Traits, "foldsHandleCase">): number {
  if (!foldsHandleCase) return ordinalsOf(block, handle).length;
  const wanted = sanitised(handle).toLowerCase();
  return block.allocations.filter((index) => {
    const held = index === null ? undefined : block.attributes[index]?.handleId;
    return held !== undefined && sanitised(held).toLowerCase() === wanted;
  }).length;
}

/** Sums the addresses of one family that a handle counts. */
export function countOf(handle: Handle | undefined, family: 4 | 6): number {
  return Object.entries(handle?.blocks ?? {}).reduce((sum, [cidr, count]) => (familyOf(cidr) === family ? sum + count : sum), 0);
}
