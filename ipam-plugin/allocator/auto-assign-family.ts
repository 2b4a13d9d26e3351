/** Assigns addresses of one family automatically: own blocks, then a new one, then borrowing (I§3.3, I§3.4). */
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure, succeeds } from "../../lib/datastore/errors.ts";
import type { Block, BlockAffinity, BlockOwner, IpamConfiguration } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type Claim, claimUnlessOverlapping, isReady, NOT_OURS, releaseIfDeselected, upgradeHost } from "./affinity.ts";
import { freeOrdinals, isOwnedBy, isWhollyReserved, prefixOf } from "./block.ts";
import { blocksWithRoom, chooseBlock, effectiveLimit, sample } from "./choose-block.ts";
import { assignFromBlock, type GrantRequest } from "./grant.ts";
import { AT_LIMIT } from "./handle.ts";
import { reusable } from "./lookup.ts";
import type { Operation } from "./operation.ts";
import { overlapError } from "./overlap.ts";
import { areSamePools, choosePools, enabledPools, isInside, type UsablePool } from "./pools.ts";
import { AGAIN, type AssignedAddress, type FamilyAssignment, type FamilyRequest } from "./types.ts";

/** Limits how many chosen blocks may be lost to other nodes before the request fails (I§3.4). */
const MOST_LOSSES = 100;

/** Limits how many blocks that should be full are read before a new one is claimed. */
const FULL_BLOCKS_LOOKED_AT = 8;

/** Assigns one family and never rejects: what went wrong is in the result, with what was assigned before. */
export async function assignFamily(operation: Operation, request: FamilyRequest, grant: GrantRequest): Promise<FamilyAssignment> {
  const assignment = new Assignment(operation, request, grant);
  try {
    await assignment.run();
    const result = assignment.result();
    operation.onAssigned?.(operation, request, result.addresses);
    return result;
  } catch (error) {
    return assignment.result(error instanceof Error ? error : new Error(String(error)));
  }
}

class Assignment {
  readonly #operation: Operation;
  readonly #request: FamilyRequest;
  readonly #grant: GrantRequest;
  readonly #addresses: AssignedAddress[] = [];
  readonly #messages: string[] = [];
  /** Why a place was passed over that a block of another size has addresses of: the first such place. */
  readonly #overlaps: string[] = [];
  /** Blocks that this assignment has found full. */
  readonly #exhausted = new Set<string>();

  constructor(operation: Operation, request: FamilyRequest, grant: GrantRequest) {
    this.#operation = operation;
    this.#request = request;
    this.#grant = grant;
  }

  result(error?: Error): FamilyAssignment {
    const { family, count } = this.#request;
    const result = { family, requested: count, addresses: this.#addresses, messages: this.#messages };
    return error === undefined ? result : { ...result, error };
  }

  async run(): Promise<void> {
    const pools = await this.#choosePools();
    if (this.#operation.mayBeOld("affinities")) await this.#fromKnownBlocks(pools);
    if (this.#isShort()) await this.#fromBlocksWithRoom(pools);
    if (this.#isShort()) await this.#inTurn(pools);
  }

  async #inTurn(pools: readonly UsablePool[]): Promise<void> {
    const { writer } = this.#operation;
    const work = (): Promise<void> => {
      this.#operation.refresh("affinities", "configuration");
      return this.#fromAnyBlocks(pools);
    };
    while (!(await writer.inTurn(this.#request.family, work))) {
      this.#operation.forgetAffinities();
      this.#exhausted.clear();
      await this.#fromKnownBlocks(pools);
      if (!this.#isShort()) return;
    }
  }

  async #fromAnyBlocks(pools: readonly UsablePool[]): Promise<void> {
    const { family, owner, requestedPools } = this.#request;
    const affinities = await this.#operation.affinities(family);
    const candidates = affinities.filter(({ value }) => isInside(pools, prefixOf(value.cidr)));
    // A request for certain pools leaves this to the next request without pools (I§3.3): it need not read the node.
    if (candidates.length < affinities.length && requestedPools.length === 0) {
      const rest = affinities.filter((affinity) => !candidates.includes(affinity)).map(({ value }) => value.cidr);
      await releaseIfDeselected(this.#operation, owner, rest);
    }
    const full = await this.#fullBlocks(candidates);
    const owned = await this.#fromOwnBlocks(candidates, full);
    if (this.#isShort()) await this.#fromNewBlocks(pools, owned, full);
  }

  #choosePools(): Promise<readonly UsablePool[]> {
    const { family, owner, requestedPools, use } = this.#request;
    return choosePools(this.#operation, { family, requested: requestedPools, use, host: owner.name });
  }

  /**
   * Tries the blocks of a list of affinities that may be old. That is safe because the compare-and-swap of the block
   * decides, and because nothing is concluded from what the list lacks. Everything else waits for a fresh list.
   */
  async #fromKnownBlocks(pools: readonly UsablePool[]): Promise<void> {
    const { family, owner, requestedPools } = this.#request;
    const affinities = await this.#operation.affinities(family);
    const candidates = affinities.map(({ value }) => value).filter(({ cidr }) => isInside(pools, prefixOf(cidr)));
    const hasForeign = candidates.length < affinities.length && requestedPools.length === 0;
    if (hasForeign || !candidates.every(isReady)) return;
    const reservations = await this.#operation.reservations();
    const usable = candidates.filter(({ cidr }) => !isWhollyReserved(prefixOf(cidr), reservations));
    for (const { cidr } of usable) {
      if (!this.#isShort()) return;
      await this.#skipUnwritable(async () => {
        const block = await this.#operation.datastore.blocks.get(cidr, { mayBeOld: this.#operation.writer.isShared });
        if (block === undefined || !isOwnedBy(block.value, owner)) return;
        await this.#take(cidr, owner, block);
        // What is remembered of a block may be old: it is looked at again before another one is claimed.
        if (this.#isShort() && !this.#operation.writer.isShared) this.#exhausted.add(cidr);
      });
    }
  }

  /**
   * Takes from blocks with room. Where the store finds those by itself, neither the affinities nor the full blocks are read, so the
   * cost of an address does not grow with the number of blocks. Anything unusual is left to the later phases, which
   * look at everything.
   */
  async #fromBlocksWithRoom(pools: readonly UsablePool[]): Promise<void> {
    const { family, owner, withRoom } = this.#request;
    // Blocks of other pools may have to be given up (I§3.3).
    if (withRoom === undefined || pools.length < (await enabledPools(this.#operation, family)).length) return;
    const reservations = await this.#operation.reservations();
    for (const block of await withRoom()) {
      if (!this.#isShort()) return;
      const { cidr } = block.value;
      if (!isInside(pools, prefixOf(cidr))) continue;
      if (freeOrdinals(await this.#operation.normalised(block.value), reservations).length === 0) continue;
      const affinity = await this.#operation.datastore.affinities.get({ owner, cidr });
      if (affinity !== undefined && isReady(affinity.value)) await this.#skipUnwritable(() => this.#take(cidr, owner, block));
    }
  }

  /** Lists the owner's blocks that need not be tried: full, and truly the owner's. Known without reading each only where the store helps. */
  async #fullBlocks(candidates: readonly Versioned<BlockAffinity>[]): Promise<ReadonlySet<string>> {
    const { owner, withRoom } = this.#request;
    if (withRoom === undefined) return this.#exhausted;
    const roomy = new Set((await withRoom()).map(({ value }) => value.cidr));
    const full = candidates.map(({ value }) => value).filter((affinity) => isReady(affinity) && !roomy.has(affinity.cidr));
    const cidrs = new Set(full.map(({ cidr }) => cidr));
    // An affinity may be wrong: some are looked at each time, so that none stays wrong for ever.
    for (const cidr of sample([...cidrs], FULL_BLOCKS_LOOKED_AT, this.#operation.random)) {
      const block = await this.#operation.datastore.blocks.get(cidr);
      if (block === undefined || !isOwnedBy(block.value, owner)) cidrs.delete(cidr);
    }
    return cidrs;
  }

  /** @returns how many blocks the owner has; affinities of blocks that turn out another's do not count */
  async #fromOwnBlocks(candidates: readonly Versioned<BlockAffinity>[], full: ReadonlySet<string>): Promise<number> {
    let owned = candidates.length;
    const reservations = await this.#operation.reservations();
    for (const affinity of candidates) {
      if (!this.#isShort()) break;
      const { cidr } = affinity.value;
      if (full.has(cidr) || isWhollyReserved(prefixOf(cidr), reservations)) continue;
      await this.#skipUnwritable(async () => {
        if (!(await this.#claimAndTake({ affinity, cidr, expectBlock: true }))) owned--;
      });
    }
    return owned;
  }

  /** Passes over a block that cannot be written (recording sequence-max), which must not keep the others from being used. */
  async #skipUnwritable(take: () => Promise<void>): Promise<void> {
    await succeeds(take, "invalid", "conflict", "not-found");
  }

  async #fromNewBlocks(pools: readonly UsablePool[], ownedAlready: number, full: ReadonlySet<string>): Promise<void> {
    const { owner, blockLimit } = this.#request;
    const configuration = await this.#operation.configuration();
    const limit = effectiveLimit(configuration, blockLimit);
    let excluded = new Set(full);
    let owned = ownedAlready;
    let losses = 0;
    let isListOld = false;
    while (this.#isShort()) {
      this.#operation.signal?.throwIfAborted();
      if (owned >= limit) throw this.#limitReached(limit);
      if (!configuration.autoAllocateBlocks) throw new TortieError("block-unavailable", "failed to find or claim a block");
      const onOverlap = (cidr: string, other: string): void => this.#noteOverlap(overlapError(cidr, other));
      const choice = await chooseBlock(this.#operation, { owner, pools, excluded, onOverlap });
      if (choice === undefined && !isListOld) return this.#borrow(pools, configuration);
      if (choice === undefined) {
        // Others have taken and given up blocks since the list was made.
        this.#operation.forgetBlocks();
        excluded = new Set(full);
        isListOld = false;
        continue;
      }
      excluded.add(choice.cidr);
      if (this.#operation.mayBeOld("pools")) {
        // A pool may be gone, or have been made again with other blocks: a claim needs a fresh list of pools.
        this.#operation.refresh("pools", "reservations");
        const now = await this.#choosePools();
        if (!areSamePools(now, pools)) return this.#fromAnyBlocks(now);
      }
      // Blocks of affinities without labels are in no list by owner: the node would claim others beside them.
      if (owned === ownedAlready && (await upgradeHost(this.#operation, owner)) > 0) {
        this.#operation.forgetAffinities();
        return this.#fromAnyBlocks(pools);
      }
      await this.#operation.requireNode();
      isListOld = this.#operation.areBlocksListed;
      if (await this.#claimUnlessDamaged({ cidr: choice.cidr, expectBlock: choice.exists })) owned++;
      else if (++losses === MOST_LOSSES) {
        throw new TortieError(
          "datastore-contention",
          `Max retries hit - excessive concurrent IPAM requests (${losses} blocks lost to other nodes)`,
        );
      }
    }
  }

  async #borrow(pools: readonly UsablePool[], configuration: IpamConfiguration): Promise<void> {
    if (configuration.strictAffinity) {
      this.#messages.push("No more free affine blocks and strict affinity enabled", ...this.#overlaps);
      return;
    }
    const exhausted: string[] = [];
    for (const pool of pools) {
      for (const block of await blocksWithRoom(this.#operation, pool, this.#request.owner)) {
        if (!this.#isShort()) return;
        await this.#take(block.value.cidr, undefined, block);
      }
      if (this.#isShort()) exhausted.push(pool.cidr);
    }
    if (this.#isShort()) this.#messages.push(`No IPs available in pools: [${exhausted.join(" ")}]`, ...this.#overlaps);
  }

  /** Claims the block; false: it turned out to be another's, or cannot be read or written, and the walk goes on. */
  async #claimUnlessDamaged(claim: Pick<Claim, "cidr" | "affinity" | "expectBlock">): Promise<boolean> {
    try {
      return await this.#claimAndTake(claim);
    } catch (error) {
      if (!isDatastoreFailure(error, "invalid")) throw error;
      return false;
    }
  }

  /** Claims the block and takes from it; false: it turned out to be another's, or may not be made. */
  async #claimAndTake(claim: Pick<Claim, "cidr" | "affinity" | "expectBlock">): Promise<boolean> {
    const { owner } = this.#request;
    const block = await claimUnlessOverlapping(this.#operation, { ...claim, owner }, (error) => this.#noteOverlap(error));
    if (block === NOT_OURS) return false;
    await this.#take(claim.cidr, owner, block);
    return true;
  }

  #noteOverlap({ message }: TortieError): void {
    this.#overlaps[0] ??= message;
  }

  async #take(cidr: string, owner: BlockOwner | undefined, block: Versioned<Block> | undefined): Promise<void> {
    const count = this.#missing;
    const { handle } = this.#grant;
    let read = block;
    const taken = await this.#operation.retry(`handle ${handle}`, async () => {
      const outcome = await assignFromBlock(this.#operation, { cidr, count, owner, block: read }, this.#grant);
      if (outcome !== AT_LIMIT) return { result: outcome };
      read = undefined;
      const held = await reusable(this.#operation, handle, this.#request.family, count);
      return held === undefined ? AGAIN : { result: held };
    });
    this.#addresses.push(...taken);
  }

  #isShort(): boolean {
    return this.#missing > 0;
  }

  get #missing(): number {
    return this.#request.count - this.#addresses.length;
  }

  #limitReached(limit: number): TortieError {
    this.#messages.push(`Need to allocate an IPAM block but could not - limit of ${limit} blocks reached for this node`);
    return new TortieError("block-limit", "cannot allocate new block due to per host block limit");
  }
}
