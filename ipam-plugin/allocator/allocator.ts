/**
 * Answers what the IPAM plugin, `tortiectl ipam` and the tests ask of the allocator, and says nothing about how (I§3, I§4).
 * One implementation on the datastore port; it never asks which driver it has.
 *
 * Every call is safe while other calls of any process are under way: the only grants are compare-and-swaps of blocks
 * (design, invariant 2). Failures of the store come out as the DatastoreError they are, refusals as TortieError.
 */
import { type Address, addressAt, covers, formatPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block, BlockOwner } from "../../lib/datastore/resources.ts";
import { type AffinityRelease, deselectedBlocks, releaseAffinity, releaseIfDeselected, upgradeHost } from "./affinity.ts";
import { assignIp, autoAssign, giveBack } from "./assign.ts";
import { holderOf, isFree, prefixOf } from "./block.ts";
import { BlockWriter, type BlockWriterOptions } from "./block-write.ts";
import { addressesByHandle, attributesOf, setOwnerAttributes } from "./lookup.ts";
import { type AllocatorServices, Operation, type OperationOptions } from "./operation.ts";
import { usable } from "./pools.ts";
import { releaseByHandle } from "./release-by-handle.ts";
import { releaseIps } from "./release-ips.ts";
import type { Reservations } from "./reservations.ts";
import type {
  AssignedAddress,
  AssignIpRequest,
  AutoAssignRequest,
  AutoAssignResult,
  BlockUtilisation,
  GiveBackOptions,
  HandleReleaseOptions,
  HeldAddress,
  OwnerPreconditions,
  OwnerUpdates,
  PoolUtilisation,
  ReleaseByHandleResult,
  ReleaseIpsResult,
  ReleaseOptions,
  Utilisation,
} from "./types.ts";

/** Is the operation that a call is part of, or the signal of an operation of its own. */
export type Within = Operation | Pick<OperationOptions, "signal">;

/** Parts of one write: addresses of a common block. */
export const MOST_PARTS = 64;

export class Allocator {
  readonly #services: AllocatorServices;

  constructor(services: AllocatorServices) {
    this.#services = services;
  }

  /**
   * Begins a new operation, which has read nothing yet, or returns the one it is given. A caller begins one itself when several calls share
   * it.
   */
  begin(within: Operation | OperationOptions = {}): Operation {
    return within instanceof Operation ? within : new Operation(this.#services, within);
  }

  /**
   * Assigns addresses of both families. Never rejects: what stopped a family is in its `error`, so that the caller can give back the rest.
   * Always an operation of its own, because it reads the labels of the request's owner and namespace.
   */
  autoAssign(
    request: AutoAssignRequest,
    reading: Pick<OperationOptions, "mustExist" | "mayBeOld" | "signal"> = {},
  ): Promise<AutoAssignResult> {
    const { owner, namespace } = request;
    return autoAssign(this.begin({ ...reading, owner, namespace }), request);
  }

  /**
   * Releases exactly what an `autoAssign` took, nothing that its handle held before, and with `owners` nothing that was taken over.
   * Never rejects because an address is gone. Takes no signal: giving back must not stop half-way.
   */
  giveBack(result: AutoAssignResult, handle: string, options: GiveBackOptions = {}): Promise<void> {
    return giveBack(this.begin(), result, handle, options);
  }

  /** @throws TortieError `address-outside-pools`, `address-taken`, `pool-use`, `handle-limit`, `affinity-strict`; HandleExistsError */
  assignIp(request: AssignIpRequest, within?: Within): Promise<AssignedAddress> {
    return assignIp(this.begin(within), request);
  }

  releaseByHandle(handle: string, options: HandleReleaseOptions = {}, within?: Within): Promise<ReleaseByHandleResult> {
    return releaseByHandle(this.begin(within), { ...options, handle });
  }

  releaseIps(options: readonly ReleaseOptions[], within?: Within): Promise<ReleaseIpsResult> {
    return releaseIps(this.begin(within), options);
  }

  /** Gives up one block of one owner. @throws TortieError `block-not-empty`, `block-claimed` */
  async releaseAffinity(cidr: string, owner: BlockOwner, how: Pick<AffinityRelease, "mustBeEmpty">, within?: Within): Promise<void> {
    await releaseAffinity(this.begin(within), { owner, cidr, ...how });
  }

  /**
   * Gives up the owner's blocks that are empty and in a pool whose node selector does not select it any more, both families (I§4.1.4).
   * @param step runs the release of one block
   */
  async releaseDeselected(owner: BlockOwner, step: (work: (signal: AbortSignal) => Promise<void>) => Promise<void>): Promise<void> {
    for (const cidr of await deselectedBlocks(this.begin(), owner)) {
      await step((signal) => releaseIfDeselected(this.begin({ signal }), owner, [cidr]));
    }
  }

  /**
   * Returns an allocator for many releases at once, which share their writes of a block.
   * @param lock the node's lock for one write
   */
  sharingWrites(lock: BlockWriterOptions["lock"]): Allocator {
    if (this.#services.writer?.isShared === true) return this;
    return new Allocator({ ...this.#services, writer: new BlockWriter({ width: MOST_PARTS, lock }) });
  }

  /** Lists what a handle holds; `undefined`: no such handle. Addresses in cooldown have no holder. */
  addressesByHandle(handle: string): Promise<readonly HeldAddress[] | undefined> {
    return addressesByHandle(this.begin(), handle);
  }

  /** Returns an address's attributes; `undefined`: free, cooling down, or outside of all blocks. @throws TortieError `address-outside-pools` */
  attributesOf(address: Address): Promise<HeldAddress | undefined> {
    return attributesOf(this.begin(), address);
  }

  utilisation(): Promise<readonly PoolUtilisation[]> {
    return utilisation(this.begin());
  }

  /**
   * @param where an address as it was looked up saves looking for its block
   * @returns the address as it is now
   * @throws TortieError `owner-conflict`, `address-outside-pools`, `address-not-assigned`
   */
  setOwnerAttributes(
    where: Address | HeldAddress,
    handle: string,
    updates: OwnerUpdates,
    preconditions: OwnerPreconditions = {},
    within?: Within,
  ): Promise<HeldAddress> {
    return setOwnerAttributes(this.begin(within), { where, handle, updates, preconditions });
  }

  /** Gives the owner's affinities the look-up labels that older writers left out (I§1.8). Returns how many were mended. */
  upgradeHost(owner: BlockOwner, within?: Within): Promise<number> {
    return upgradeHost(this.begin(within), owner);
  }
}

export type { AllocatorServices, Operation } from "./operation.ts";
export * from "./types.ts";

interface BlockFigures {
  readonly figures: readonly BlockUtilisation[];
  readonly unreadable: readonly string[];
}

/** Lists the pools by name, with the blocks that lie in each (a block of a nested pool counts for the outer one too, I§3.2). */
export async function utilisation(operation: Operation): Promise<readonly PoolUtilisation[]> {
  const [pools, blocks, reservations] = await Promise.all([operation.pools(), operation.blocks(), operation.reservations()]);
  return usable(pools).map(({ pool, prefix, cidr }) => {
    const inside = blocks.filter(({ value }) => covers(prefix, prefixOf(value.cidr)));
    const { figures, unreadable } = figuresOf(
      inside.map(({ value }) => value),
      reservations,
    );
    const inUse = sum(figures.map((block) => block.inUse));
    const both = sum(figures.map((block) => block.inUse + block.reserved + block.available - block.capacity));
    return { name: pool.name, ...totals(cidr, prefix, inUse, both, reservations), blocks: figures, unreadable };
  });
}

/** Counts free addresses. A block is decoded at first use: one that cannot be decoded is named, and its addresses count as free. */
function figuresOf(blocks: readonly Block[], reservations: Reservations): BlockFigures {
  const figures: BlockUtilisation[] = [];
  const unreadable: string[] = [];
  for (const block of blocks) {
    try {
      figures.push(blockFigures(block, reservations));
    } catch (error) {
      if (!isDatastoreFailure(error, "invalid")) throw error;
      unreadable.push(error.message);
    }
  }
  return { figures, unreadable };
}

function blockFigures(block: Block, reservations: Reservations): BlockUtilisation {
  const prefix = prefixOf(block.cidr);
  const { family } = prefix.address;
  const taken = block.allocations.flatMap((_, ordinal) => (isFree(block, ordinal) ? [] : [ordinal]));
  const both = taken.filter((ordinal) => reservations.reservedUntil(family, addressAt(prefix, ordinal).value) !== undefined).length;
  const holders = taken.map((ordinal) => holderOf(block, ordinal));
  return {
    ...totals(formatPrefix(prefix), prefix, BigInt(taken.length), BigInt(both), reservations),
    owner: block.affinity,
    borrowed: holders.filter((holder) => isBorrowed(block, holder?.activeOwner?.node)).length,
  };
}

function isBorrowed({ affinity }: Block, node: string | undefined): boolean {
  return node !== undefined && !(affinity?.type === "host" && affinity.name === node);
}

/** @param both addresses that are in use and reserved */
function totals(cidr: string, prefix: Prefix, inUse: bigint, both: bigint, reservations: Reservations): Utilisation {
  const capacity = sizeOf(prefix);
  const reserved = reservations.countIn(prefix.address.family, prefix.address.value, capacity);
  return { cidr, capacity, inUse, reserved, available: capacity - inUse - reserved + both };
}

function sum(numbers: readonly bigint[]): bigint {
  return numbers.reduce((total, number) => total + number, 0n);
}
