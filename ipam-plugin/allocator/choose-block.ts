/**
 * Chooses which block to claim when the owner's own are full (I§3.5): the first one missing, or owned without affinity, on the owner's walk
 * through each pool; else one that stands empty.
 *
 * The first blocks on the walk are read one by one, because the very first is nearly always missing; only then all blocks of the
 * cluster are listed, once for a request. What was read may be old by the time of the claim, and blocks of another size are only seen in
 * the list; the claim finds out.
 */
import { bitsOf, contains, covers, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, isRefusal } from "../../lib/datastore/errors.ts";
import type { Block, BlockOwner, IpamConfiguration } from "../../lib/datastore/resources.ts";
import { releaseAffinity } from "./affinity.ts";
import { freeOrdinals, isEmpty, isOwnedBy, isReadable, prefixOf } from "./block.ts";
import { startIndex } from "./go-random.ts";
import type { Operation } from "./operation.ts";
import { overlapFinder } from "./overlap.ts";
import { blockAt, blockCount, indexOf, type UsablePool } from "./pools.ts";
import type { Reservations } from "./reservations.ts";

/** Protects an empty block from being reclaimed for this long after its claim: its first address may be on the way. */
const YOUNGEST_RECLAIM_MS = 60_000;

/** Limits how many blocks are read one by one before all are listed. */
const MOST_SINGLE_READS = 3;

const DAMAGED = Symbol("damaged");

interface Choice {
  readonly cidr: string;
  /** The block is there: it is ours, without affinity. */
  readonly exists: boolean;
}

interface ChooseRequest {
  readonly owner: BlockOwner;
  readonly pools: readonly UsablePool[];
  /** Blocks that this request has already lost or found full. */
  readonly excluded: ReadonlySet<string>;
  /** Hears of each place that is passed over because a block of another size has addresses of it. */
  readonly onOverlap?: (cidr: string, other: string) => void;
}

/** Chooses a block; `undefined`: every block of the pools is in use. */
export async function chooseBlock(operation: Operation, request: ChooseRequest): Promise<Choice | undefined> {
  const empty: Versioned<Block>[] = [];
  const free = await firstFreeBlock(operation, request, (found) => empty.push(found));
  if (free !== undefined) return free;
  for (const found of empty) {
    if (await reclaim(operation, found)) return { cidr: found.value.cidr, exists: false };
  }
  return undefined;
}

/**
 * Finds the first block on the walk that does not exist yet, or that the owner has without an affinity.
 * @param onEmpty called with each block on the way that stands empty in the hands of another
 */
export async function firstFreeBlock(
  operation: Operation,
  { pools, owner, excluded, onOverlap }: ChooseRequest,
  onEmpty: (found: Versioned<Block>) => void = () => {},
): Promise<Choice | undefined> {
  const find = finder(operation);
  const reservations = await operation.reservations();
  for (const pool of pools) {
    for (const { cidr, prefix } of walk(pool, startOf(operation, pool, owner), reservations)) {
      if (excluded.has(cidr)) continue;
      const found = await find(cidr, prefix);
      if (found === DAMAGED) continue;
      if (typeof found === "string") {
        onOverlap?.(cidr, found);
        continue;
      }
      if (found === undefined) return { cidr, exists: false };
      if (!isReadable(found.value)) continue;
      const block = await operation.normalised(found.value);
      if (freeOrdinals(block, reservations).length === 0) continue;
      if (isOwnedBy(block, owner)) return { cidr, exists: true };
      if (isEmpty(block)) onEmpty(found);
    }
  }
  return undefined;
}

/**
 * Lists the existing blocks of a pool with room, of any owner, in the owner's walking order (I§3.4, borrowing). A block whose allocations
 * cannot be decoded has no room for anybody.
 */
export async function blocksWithRoom(operation: Operation, pool: UsablePool, owner: BlockOwner): Promise<readonly Versioned<Block>[]> {
  const reservations = await operation.reservations();
  const start = startOf(operation, pool, owner);
  const count = blockCount(pool);
  const listed = await operation.blocks();
  const places: { readonly block: Versioned<Block>; readonly steps: bigint }[] = [];
  for (const block of listed) {
    const prefix = prefixOf(block.value.cidr);
    if (!covers(pool.prefix, prefix) || !isReadable(block.value)) continue;
    if (freeOrdinals(await operation.normalised(block.value), reservations).length === 0) continue;
    // Blocks of another size may be in a pool that has no place for one of its own size.
    const steps = count === 0n ? 0n : (indexOf(pool, prefix.address.value) - start + count) % count;
    places.push({ block, steps });
  }
  return places.sort((a, b) => (a.steps < b.steps ? -1 : 1)).map(({ block }) => block);
}

/** A block, the CIDR of one of another size that overlaps with the place, or nothing. */
type Found = Versioned<Block> | typeof DAMAGED | string | undefined;

/** Looks places up: the first few in the store, the others in the list of all blocks. */
function finder(operation: Operation): (cidr: string, place: Prefix) => Promise<Found> {
  let singleReads = 0;
  let listed: Map<string, Versioned<Block>> | undefined;
  const overlapping = new Map<number, ReturnType<typeof overlapFinder>>();
  return async (cidr, place) => {
    if (!operation.areBlocksListed && singleReads++ < MOST_SINGLE_READS) return readable(operation.datastore.blocks.get(cidr));
    listed ??= new Map((await operation.blocks()).map((block) => [block.value.cidr, block]));
    const cidrs = [...listed.keys()];
    return listed.get(cidr) ?? overlapping.getOrInsertComputed(place.length, (length) => overlapFinder(cidrs, length))(place);
  };
}

/** Skips a block that cannot be decoded: it is not claimed, and must not hide the others. */
async function readable<T>(reading: Promise<T>): Promise<T | typeof DAMAGED> {
  try {
    return await reading;
  } catch (error) {
    if (isDatastoreFailure(error, "invalid")) return DAMAGED;
    throw error;
  }
}

/** Visits every block of a pool once, from `start` round to it again, but for those wholly reserved. */
function* walk(pool: UsablePool, start: bigint, reservations: Reservations): Generator<ReturnType<typeof blockAt>> {
  const count = blockCount(pool);
  const family = pool.prefix.address.family;
  for (let step = 0n; step < count; step++) {
    const index = (start + step) % count;
    const place = blockAt(pool, index);
    const { prefix } = place;
    const first = prefix.address.value;
    const until = reservations.isEmpty(family) ? undefined : reservations.reservedUntil(family, first);
    if (until === undefined || until < first + sizeOf(prefix) - 1n) {
      yield place;
    } else {
      // A reserved range may hold 2^58 blocks: go to its end, or to the end of the pool, at one step.
      const isToTheEnd = !contains(pool.prefix, { family, value: until + 1n });
      step += (isToTheEnd ? count : indexOf(pool, until + 1n)) - index - 1n;
    }
  }
}

/** Deletes an empty block of another owner, or of none, so that its space can be claimed. */
async function reclaim(operation: Operation, listed: Versioned<Block>): Promise<boolean> {
  const { cidr, affinity, affinityClaimTime, sequenceNumber } = listed.value;
  try {
    if (affinity === undefined) {
      await operation.datastore.blocks.delete(cidr, listed.revision);
      return true;
    }
    const claimed = affinityClaimTime === undefined ? Number.NaN : Date.parse(affinityClaimTime);
    if (operation.clock.nowMs() - claimed < YOUNGEST_RECLAIM_MS) return false;
    return await releaseAffinity(operation, { owner: affinity, cidr, mustBeEmpty: true, sequenceNumber });
  } catch (error) {
    if (isDatastoreFailure(error, "conflict", "not-found") || isRefusal(error)) return false;
    throw error;
  }
}

/**
 * Says where the owner begins in a pool. Blocks of one address are an exception: every host begins at a random place, because it needs as many
 * of them as it has pods and would walk over all of its own each time.
 */
function startOf(operation: Operation, pool: UsablePool, owner: BlockOwner): bigint {
  const count = blockCount(pool);
  if (count <= 1n) return 0n;
  if (pool.pool.blockSize === bitsOf(pool.prefix.address.family)) {
    return (count * BigInt(Math.floor(operation.random() * 2 ** 32))) >> 32n;
  }
  return startIndex(owner.name, count);
}

/** Is the limit when `maxBlocksPerHost` is 0 (I§2.6). */
const DEFAULT_BLOCK_LIMIT = 20;

/** Returns the smaller of the two limits that are set (I§3.4). */
export function effectiveLimit({ maxBlocksPerHost }: IpamConfiguration, blockLimit: number): number {
  const limits = [maxBlocksPerHost, blockLimit].filter((limit) => limit > 0);
  return limits.length > 0 ? Math.min(...limits) : DEFAULT_BLOCK_LIMIT;
}

/** Takes all of a few, or some of many that follow each other, beginning anywhere. */
export function sample<T>(items: readonly T[], count: number, random: () => number): readonly T[] {
  const start = Math.floor(random() * items.length);
  return [...items.slice(start), ...items.slice(0, start)].slice(0, count);
}
