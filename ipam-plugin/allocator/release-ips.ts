/**
 * Releases single addresses (I§4.2), optionally only if a given handle holds them, by a given allocation.
 * Releasing a free address is not an error; the result names it.
 */
import { type Address, formatAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { type Block, type Handle, sanitised } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { releaseIfDeselected } from "./affinity.ts";
import { holderOf, isEmpty, ordinalOf, ordinalsOf, prefixOf, sequenceOf } from "./block.ts";
import { putCounts, settle } from "./handle.ts";
import { blockOf, unexpectedOwner } from "./lookup.ts";
import type { Operation } from "./operation.ts";
import { releaseFrom } from "./release-by-handle.ts";
import type { ReleaseIpsResult, ReleaseOptions } from "./types.ts";

/** Says from how many addresses on all handles are listed once instead of being read one by one (I§4.2.2). */
const LIST_HANDLES_FROM = 3;

export async function releaseIps(operation: Operation, options: readonly ReleaseOptions[]): Promise<ReleaseIpsResult> {
  const byBlock = new Map<string, ReleaseOptions[]>();
  const unallocated: Address[] = [];
  const done: ReleaseOptions[] = [];
  for (const option of withoutDuplicates(options)) {
    const cidr = option.block ?? (await blockOf(operation, option.address));
    if (cidr === undefined) {
      unallocated.push(option.address);
      done.push(option);
    } else {
      byBlock.getOrInsert(cidr, []).push(option);
    }
  }
  const counts = new HandleCounts(operation, options.length);
  const blocks = [...byBlock.entries()];
  const outcomes = await Promise.allSettled(blocks.map(([cidr, wanted]) => releaseInBlock(operation, cidr, wanted, counts)));
  await counts.lower();
  let error: Error | undefined;
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome.status === "rejected") {
      error ??= outcome.reason instanceof Error ? outcome.reason : new Error(String(outcome.reason));
      continue;
    }
    unallocated.push(...outcome.value.unallocated);
    done.push(...(blocks[index]?.[1] ?? []));
    const block = outcome.value.block;
    if (block?.affinity !== undefined && isEmpty(block)) await releaseIfDeselected(operation, block.affinity, [block.cidr]);
  }
  return error === undefined ? { unallocated, done } : { unallocated, done, error };
}

interface BlockOutcome {
  readonly unallocated: readonly Address[];
  /** The block as it is now; absent when it was not written. */
  readonly block?: Block;
}

/** Returns the addresses that were free already, and the block as it is when it has been written. */
async function releaseInBlock(
  operation: Operation,
  cidr: string,
  options: readonly ReleaseOptions[],
  counts: HandleCounts,
): Promise<BlockOutcome> {
  const neverUsed = options.every((option) => option.neverUsed === true);
  const { read, ordinals, now } = await releaseFrom(operation, cidr, {
    choose: (block) => ({ ordinals: heldOrdinals(block, options), newSequence: block.sequenceNumber, neverUsed }),
    prepare: (block, held) => counts.read(holdersOf(block, held)),
  });
  const unallocated = options.filter(({ address }) => isUnallocated(read, address)).map(({ address }) => address);
  if (read === undefined || now === undefined) return { unallocated };
  counts.released(now, holdersOf(read, ordinals));
  return { unallocated, block: now };
}

/** Lists the handles of ordinals, each as often as it holds one. */
function holdersOf(block: Block, ordinals: readonly number[]): readonly string[] {
  return ordinals.flatMap((ordinal) => holderOf(block, ordinal)?.handleId ?? []).map(sanitised);
}

/**
 * Counts the handles of the released addresses down. Each is read before the first of its blocks is written, and written once, after the last:
 * only a count as it was before may be lowered by arithmetic (handle.ts).
 */
class HandleCounts {
  readonly #operation: Operation;
  readonly #isListed: boolean;
  readonly #stored = new Map<string, Promise<Versioned<Handle> | undefined>>();
  readonly #lowered = new Map<string, { readonly cidr: string; readonly released: number; readonly left: number }[]>();
  #list: Promise<readonly Versioned<Handle>[]> | undefined;

  constructor(operation: Operation, addresses: number) {
    this.#operation = operation;
    this.#isListed = addresses >= LIST_HANDLES_FROM;
  }

  async read(handles: readonly string[]): Promise<void> {
    await Promise.all(handles.map((handle) => this.#stored.getOrInsertComputed(handle, () => this.#read(handle))));
  }

  released(block: Block, holders: readonly string[]): void {
    for (const handle of new Set(holders)) {
      const released = holders.filter((holder) => holder === handle).length;
      const entry = { cidr: block.cidr, released, left: ordinalsOf(block, handle).length };
      this.#lowered.getOrInsert(handle, []).push(entry);
    }
  }

  async lower(): Promise<void> {
    for (const [handle, blocks] of this.#lowered) {
      const stored = await this.#stored.get(handle);
      if (stored === undefined) continue;
      const counts = blocks.map(({ cidr, released, left }) => ({ cidr, count: (stored.value.blocks[cidr] ?? 0) - released, left }));
      // A count below what the block records means that the handle has been raised since it was read.
      const isOutdated = counts.some(({ count, left }) => count < left);
      const lowered = Object.fromEntries(counts.map(({ cidr, count }) => [cidr, count]));
      if (!isOutdated && (await putCounts(this.#operation.datastore.handles, handle, stored, lowered))) continue;
      for (const { cidr } of blocks) await settle(this.#operation, handle, cidr);
    }
  }

  async #read(handle: string): Promise<Versioned<Handle> | undefined> {
    const { handles } = this.#operation.datastore;
    if (!this.#isListed) return handles.get(handle);
    this.#list ??= handles.list();
    return (await this.#list).find((stored) => sanitised(stored.value.id) === handle);
  }
}

/** Ordinals to release; one option that does not fit refuses the whole block. */
function heldOrdinals(block: Block, options: readonly ReleaseOptions[]): readonly number[] {
  const prefix = prefixOf(block.cidr);
  return options.flatMap(({ address, handle, sequenceNumber, owners }) => {
    const ordinal = ordinalOf(prefix, address);
    if (ordinal === undefined) return [];
    const holder = holderOf(block, ordinal);
    const stored = sequenceOf(block, ordinal);
    if (sequenceNumber !== undefined && stored !== sequenceNumber) {
      if (holder === undefined) return [];
      throw mismatch(address, `bad sequence number: ${sequenceNumber} given, ${stored} stored`);
    }
    if (holder === undefined) return [];
    const held = sanitised(holder.handleId ?? "");
    if (handle !== undefined && held !== sanitised(handle)) throw mismatch(address, `bad handle: ${handle} given, ${held} stored`);
    const other = unexpectedOwner(holder, owners);
    if (other !== undefined) throw mismatch(address, `the ${other} owner is not the expected one`);
    return [ordinal];
  });
}

function isUnallocated(block: Block | undefined, address: Address): boolean {
  const ordinal = block === undefined ? undefined : ordinalOf(prefixOf(block.cidr), address);
  return block === undefined || ordinal === undefined || holderOf(block, ordinal) === undefined;
}

/** Tells whether a release was refused because the address is not the caller's any more. */
export function isGone(error: Error): boolean {
  return error instanceof TortieError && error.word === "release-mismatch";
}

function mismatch(address: Address, reason: string): TortieError {
  return new TortieError("release-mismatch", `update conflict: ${formatAddress(address)}: ${reason}`);
}

function withoutDuplicates(options: readonly ReleaseOptions[]): readonly ReleaseOptions[] {
  const first = new Map<string, ReleaseOptions>();
  for (const option of options) first.getOrInsert(formatAddress(option.address), option);
  return [...first.values()];
}
