/**
 * The plain model of an allocator: who holds each address, and when it was let go. It watches every state the store takes and
 * objects to every change that no correct allocator makes, whoever made it and whatever it was about to do.
 */

import { familyOf, holderOf, isFree, prefixOf, sequenceOf } from "../../../ipam-plugin/allocator/block.ts";
import { addressAt, contains, formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import type { Block, BlockAffinity, Handle, IpamConfiguration } from "../../../lib/datastore/resources.ts";
import type { MemoryStore } from "../memory-datastore.ts";

export interface Holding {
  readonly handle: string;
  readonly node: string | undefined;
  readonly sequenceNumber: bigint;
}

/** Handles whose addresses nobody ever uses: they are given back without a cooldown. */
export const GIVEN_BACK = "back.";

class Violation extends Error {}

interface ModelFacts {
  readonly store: MemoryStore;
  readonly configuration: IpamConfiguration;
  readonly nowMs: () => number;
  readonly isReserved: (address: string) => boolean;
  /** Whether a node may not go beyond its number of blocks now. */
  readonly isLimited: (node: string) => boolean;
}

export class ReferenceModel {
  /** Every address that somebody holds now. */
  readonly held = new Map<string, Holding>();
  readonly #facts: ModelFacts;
  readonly #seenBlocks = new Map<string, Block>();
  readonly #seenHandles = new Map<string, Handle>();
  #seenAffinities: readonly BlockAffinity[] = [];
  readonly #releasedMs = new Map<string, number>();

  constructor(facts: ModelFacts) {
    this.#facts = facts;
  }

  /** After every step of the scheduler. @throws Violation */
  readonly observe = (): void => {
    const blocks = this.#facts.store.rows("block");
    const handles = this.#facts.store.rows("handle");
    let hasChanged = false;
    for (const [key, { value }] of blocks) {
      const block = value as Block;
      if (this.#seenBlocks.get(key) === block) continue;
      hasChanged = true;
      checkBlock(block);
      this.#blockChanged(this.#seenBlocks.get(key), block);
      this.#seenBlocks.set(key, block);
    }
    for (const [key, block] of this.#seenBlocks) {
      if (blocks.has(key)) continue;
      hasChanged = true;
      this.#blockGone(block);
      this.#seenBlocks.delete(key);
    }
    for (const [key, { value }] of handles) {
      if (this.#seenHandles.get(key) === value) continue;
      hasChanged = true;
      this.#seenHandles.set(key, value as Handle);
    }
    for (const key of this.#seenHandles.keys()) {
      if (handles.has(key)) continue;
      hasChanged = true;
      this.#seenHandles.delete(key);
    }
    const affinities = this.#affinities();
    if (affinities.length !== this.#seenAffinities.length || affinities.some((row, index) => row !== this.#seenAffinities[index])) {
      hasChanged = true;
      this.#checkLimit(this.#seenAffinities, affinities);
      this.#seenAffinities = affinities;
    }
    if (!hasChanged) return;
    this.#checkCounts(false);
    this.#checkAffinities();
  };

  /** When nothing is under way. @throws Violation */
  checkAtRest(): void {
    this.#checkCounts(true);
    const [unclaimed] = this.#withoutAffinity();
    if (unclaimed !== undefined) throw new Violation(`at rest: ${unclaimed.affinity?.name} owns ${unclaimed.cidr} without an affinity`);
  }

  /**
   * The same after a crash. A process that dies right after it created a block, while another removes the affinity for it, leaves an
   * owner without affinity: no address is lost by it, and the block is used when the pool has no missing one left.
   * @throws Violation
   */
  checkAfterCrash(): void {
    this.#checkCounts(true);
    const used = this.#withoutAffinity().find(({ cidr }) => [...this.held.keys()].some((address) => isWithin(cidr, address)));
    if (used !== undefined) throw new Violation(`after a crash: ${used.cidr} has addresses, and no affinity`);
  }

  /** Blocks that the watched store has now. */
  blocks(): readonly Block[] {
    return [...this.#seenBlocks.values()];
  }

  handles(): readonly Handle[] {
    return [...this.#seenHandles.values()];
  }

  #blockChanged(before: Block | undefined, after: Block): void {
    if (
      before !== undefined &&
      after.sequenceNumber !== before.sequenceNumber + 1n &&
      after.sequenceNumber < 1_000_000n * BigInt(Math.floor(this.#facts.nowMs()))
    ) {
      throw new Violation(`block ${after.cidr}: sequence number ${before.sequenceNumber} was followed by ${after.sequenceNumber}`);
    }
    const prefix = prefixOf(after.cidr);
    for (let ordinal = 0; ordinal < after.allocations.length; ordinal++) {
      const address = formatAddress(addressAt(prefix, ordinal));
      const holding = holdingOf(after, ordinal);
      const previous = this.held.get(address);
      if (holding === undefined) {
        if (previous !== undefined) this.#release(address, after, ordinal, isFree(after, ordinal));
        if (isFree(after, ordinal)) this.#checkCooled(address);
        continue;
      }
      if (previous === undefined) this.#grant(address, holding, after);
      else if (previous.handle !== holding.handle || previous.sequenceNumber !== holding.sequenceNumber) {
        throw new Violation(`${address} went from ${describe(previous)} to ${describe(holding)} without a release`);
      }
    }
  }

  /** A block may go only when nobody holds an address of it, and none is cooling. */
  #blockGone(block: Block): void {
    const prefix = prefixOf(block.cidr);
    for (let ordinal = 0; ordinal < block.allocations.length; ordinal++) {
      const address = formatAddress(addressAt(prefix, ordinal));
      if (this.held.has(address)) this.#release(address, block, ordinal, true);
      this.#checkCooled(address);
    }
  }

  /** A claim begins with its affinity. */
  #checkLimit(before: readonly BlockAffinity[], after: readonly BlockAffinity[]): void {
    const limit = this.#facts.configuration.maxBlocksPerHost;
    if (limit === 0) return;
    for (const { owner, cidr } of after) {
      const owned = before.filter((other) => other.owner.name === owner.name && familyOf(other.cidr) === familyOf(cidr));
      if (owned.length < limit || owned.some((other) => other.cidr === cidr) || !this.#facts.isLimited(owner.name)) continue;
      throw new Violation(`${owner.name} claims ${cidr}, and has ${owned.map((other) => other.cidr)} already`);
    }
  }

  #grant(address: string, holding: Holding, block: Block): void {
    this.#checkCooled(address);
    if (this.#facts.configuration.strictAffinity && block.affinity?.name !== holding.node) {
      throw new Violation(`strict affinity: ${describe(holding)} of ${holding.node} got ${address} of ${block.affinity?.name ?? "nobody"}`);
    }
    if (this.#facts.isReserved(address) && !holding.handle.startsWith("ip."))
      throw new Violation(`${address} is reserved, ${holding.handle} got it`);
    this.#releasedMs.delete(address);
    this.held.set(address, holding);
  }

  /** The release counts from the moment it was stamped, in whole seconds; its write may have come later. */
  #release(address: string, block: Block, ordinal: number, isFreed: boolean): void {
    const isUnused = this.held.get(address)?.handle.startsWith(GIVEN_BACK) === true;
    this.held.delete(address);
    if (isUnused && isFreed) return;
    const index = block.allocations[ordinal] ?? null;
    const stamp = index === null ? undefined : block.attributes[index]?.releasedAt;
    const latest = stamp === undefined ? this.#facts.nowMs() : Date.parse(stamp) + 999;
    this.#releasedMs.set(address, Math.min(this.#facts.nowMs(), latest));
  }

  #checkCooled(address: string): void {
    const released = this.#releasedMs.get(address);
    if (released === undefined || this.#facts.nowMs() - released >= this.#facts.configuration.ipCooldownSeconds * 1000) return;
    throw new Violation(`${address} is free ${this.#facts.nowMs() - released} ms after its release`);
  }

  /** A handle counts at least what the blocks record; exactly that when nothing is under way. */
  #checkCounts(isExact: boolean): void {
    const recorded = new Map<string, number>();
    for (const block of this.#seenBlocks.values()) {
      for (const index of block.allocations) {
        const handle = index === null ? undefined : block.attributes[index]?.handleId;
        if (handle !== undefined) recorded.set(`${handle} ${block.cidr}`, (recorded.get(`${handle} ${block.cidr}`) ?? 0) + 1);
      }
    }
    for (const [key, { id, blocks }] of this.#seenHandles) {
      if (id !== key) throw new Violation(`handle ${key} says that it is ${id}`);
      if (Object.keys(blocks).length === 0) throw new Violation(`handle ${key} is empty`);
      for (const [cidr, count] of Object.entries(blocks)) {
        const held = recorded.get(`${id} ${cidr}`) ?? 0;
        recorded.delete(`${id} ${cidr}`);
        if (isExact ? count !== held : count < held) throw new Violation(`handle ${id} counts ${count} in ${cidr}, which records ${held}`);
      }
    }
    const [uncounted] = recorded;
    if (uncounted !== undefined) throw new Violation(`no handle counts ${uncounted[0]}`);
  }

  /** Routing announces confirmed affinities: a confirmed one is true at every moment. */
  #checkAffinities(): void {
    for (const { owner, cidr, state } of this.#affinities()) {
      if (state !== "confirmed") continue;
      const block = [...this.#seenBlocks.values()].find((candidate) => candidate.cidr === cidr);
      if (block?.affinity?.name !== owner.name) {
        throw new Violation(`affinity of ${owner.name} for ${cidr} is confirmed, the block is ${block?.affinity?.name ?? "nobody"}'s`);
      }
    }
  }

  /** Blocks whose owner has no affinity for them. @throws Violation when an affinity is not confirmed, and so not true for ever */
  #withoutAffinity(): readonly Block[] {
    const claimed = new Set(
      this.#affinities().map(({ owner, cidr, state }) => {
        if (state !== "confirmed") throw new Violation(`at rest: affinity of ${owner.name} for ${cidr} is ${state}`);
        return `${owner.name} ${cidr}`;
      }),
    );
    return this.blocks().filter(({ affinity, cidr }) => affinity !== undefined && !claimed.has(`${affinity.name} ${cidr}`));
  }

  #affinities(): readonly BlockAffinity[] {
    return [...this.#facts.store.rows("affinity").values()].map(({ value }) => value as BlockAffinity);
  }
}

/** Allocations, queue, attributes and sequence numbers of a block agree with each other. */
function checkBlock(block: Block): void {
  const { cidr, allocations, unallocated, attributes, sequenceNumberForAllocation } = block;
  const free = allocations.flatMap((index, ordinal) => (index === null ? [ordinal] : []));
  if ([...unallocated].sort((a, b) => a - b).join() !== free.join()) {
    throw new Violation(`block ${cidr}: the queue has [${unallocated.join()}], free are [${free.join()}]`);
  }
  const used = new Set(allocations.filter((index) => index !== null));
  if (used.size !== attributes.length || [...used].some((index) => index >= attributes.length)) {
    throw new Violation(`block ${cidr}: ${attributes.length} attributes, used are [${[...used].join()}]`);
  }
  const numbered = Object.keys(sequenceNumberForAllocation).map(Number);
  const taken = allocations.flatMap((index, ordinal) => (index === null ? [] : [ordinal]));
  if (numbered.sort((a, b) => a - b).join() !== taken.join()) {
    throw new Violation(`block ${cidr}: sequence numbers for [${numbered.join()}], taken are [${taken.join()}]`);
  }
}

function holdingOf(block: Block, ordinal: number): Holding | undefined {
  const holder = holderOf(block, ordinal);
  if (holder === undefined) return undefined;
  return { handle: holder.handleId ?? "", node: holder.activeOwner?.node, sequenceNumber: sequenceOf(block, ordinal) };
}

function isWithin(cidr: string, address: string): boolean {
  const parsed = parseAddress(address);
  return parsed !== undefined && contains(prefixOf(cidr), parsed);
}

function describe({ handle, sequenceNumber }: Holding): string {
  return `${handle} (#${sequenceNumber})`;
}
