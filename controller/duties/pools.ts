/**
 * Keeps a pool that is being deleted until its addresses are free, by a finalizer, and says by a condition how full it is. Every patch
 * carries the resourceVersion that it was made from. Items are `pool <name>`.
 */

import { otherSizes } from "../../doctor/blocks.ts";
import { placedBlocks } from "../../doctor/snapshot.ts";
import { isEmpty, isFree, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { covers, maskPrefix, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { V3_GROUP } from "../../lib/datastore/calico/codec.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block, IPPool } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type Fields, text } from "../../lib/json/decode.ts";
import type { PoolView } from "../view/cluster-view.ts";
import { answerUnless, type Duty, type DutyContext } from "./duty.ts";

export const FINALIZER = "tortie.dev/pool-addresses";

export class Pools implements Duty {
  readonly name = "pools";
  readonly #context: DutyContext;
  readonly #hasFinalizer: boolean;

  /** @param hasFinalizer `--pool-finalizer`; without it one that is there is taken away */
  constructor(context: DutyContext, hasFinalizer: boolean) {
    this.#context = context;
    this.#hasFinalizer = hasFinalizer;
  }

  async look(): Promise<readonly string[]> {
    const { view } = this.#context;
    view.mustBeComplete();
    return view.pools.filter((pool) => this.#isDue(pool)).map(({ pool }) => `pool ${pool.name}`);
  }

  async work(item: string, signal: AbortSignal): Promise<void> {
    const { view } = this.#context;
    view.mustBeComplete();
    const found = view.pools.find(({ pool }) => item === `pool ${pool.name}`);
    if (found === undefined) return;
    if (found.pool.deleting) await this.#finishDeletion(found, signal);
    else if (found.finalizers.includes(FINALIZER) !== this.#hasFinalizer) await this.#putFinalizer(found, this.#hasFinalizer);
    else await this.#putCondition(found);
  }

  #isDue(view: PoolView): boolean {
    const isHeld = view.finalizers.includes(FINALIZER);
    if (view.pool.deleting) return isHeld;
    return isHeld !== this.#hasFinalizer || this.#conditions(view) !== undefined;
  }

  #conditions({ pool, conditions }: PoolView): readonly Fields[] | undefined {
    const { view, clock } = this.#context;
    const usage = usageOf(pool, view.blocks);
    return usage && withCondition(conditions, conditionOf(usage), clock.date().toISOString());
  }

  /**
   * Lets a pool go. No address is given out of a pool that is being deleted, so that blocks which are empty stay so. Nobody writes such a
   * block either: the addresses that were released last cool down in it, and only who looks at the clock sees that they are free.
   */
  async #finishDeletion(view: PoolView, signal: AbortSignal): Promise<void> {
    const { datastore, allocator, allocatorClock, log } = this.#context;
    const { pool } = view;
    const unreadable = this.#context.unreadable();
    const operation = new Operation({ datastore, clock: allocatorClock }, { signal });
    const inside = await cooledInside(operation, pool);
    const isElsewhere = this.#context.view.pools.some(
      (other) => other.pool.name !== pool.name && !other.pool.deleting && other.pool.cidr === pool.cidr,
    );
    // Addresses of a pool that was made again under another name stay with that one.
    if (!isElsewhere) {
      if (inside.some(({ value }) => !isEmpty(value))) return;
      const affinities = (await datastore.affinities.listAll()).filter(({ value }) => isInside(pool, value.cidr));
      for (const { value } of affinities) {
        try {
          await allocator.releaseAffinity(value.cidr, value.owner, { mustBeEmpty: true }, { signal });
        } catch (error) {
          if (!(error instanceof TortieError && error.word === "block-claimed")) throw error;
        }
      }
      const left = await cooledInside(operation, pool);
      // A block that has got an owner or an address since then is looked at again.
      if (left.some(({ value }) => value.affinity !== undefined || !isEmpty(value))) return;
      // Blocks without an owner have no affinity to be released with.
      for (const { value, revision } of left) {
        try {
          await datastore.blocks.delete(value.cidr, revision);
        } catch (error) {
          if (isDatastoreFailure(error, "not-found")) continue;
          if (isDatastoreFailure(error, "conflict")) return;
          throw error;
        }
      }
    }
    if (this.#context.unreadable() !== unreadable) {
      throw new Error(`pool ${pool.name} is kept: a block that cannot be read may hold addresses of it`);
    }
    await this.#putFinalizer(view, false);
    log.info(`pool ${pool.name} is free of addresses: its deletion may go on`);
  }

  async #putFinalizer(view: PoolView, isWanted: boolean): Promise<void> {
    const others = view.finalizers.filter((name) => name !== FINALIZER);
    await this.#patch(view, "", { metadata: { finalizers: isWanted ? [...others, FINALIZER] : others } });
  }

  /** Writes the condition. The group v3 has a sub-resource for it; the other one takes it with the pool (manifests/crds). */
  async #putCondition(view: PoolView): Promise<void> {
    const conditions = this.#conditions(view);
    if (conditions !== undefined) await this.#patch(view, this.#context.group === V3_GROUP ? "/status" : "", { status: { conditions } });
  }

  async #patch({ pool, resourceVersion }: PoolView, rest: string, { metadata = {}, ...patch }: { metadata?: Fields; status?: Fields }) {
    const body = JSON.stringify({ ...patch, metadata: { ...metadata, resourceVersion } });
    const path = `/apis/${this.#context.group}/ippools/${encodeURIComponent(pool.name)}${rest}`;
    // A pool that was changed or deleted meanwhile is for the next look.
    await answerUnless([404, 409], this.#context.client, { method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  }
}

/** Reads the pool's blocks, with addresses free whose cooldown is over. */
async function cooledInside(operation: Operation, pool: PoolView["pool"]): Promise<readonly Versioned<Block>[]> {
  const inside = (await operation.datastore.blocks.list()).filter(({ value }) => isInside(pool, value.cidr));
  return Promise.all(inside.map(async ({ value, revision }) => ({ value: await operation.cooled(value), revision })));
}

interface PoolUsage {
  /** Blocks of another size than the pool's, in words, if there are any. */
  readonly otherSizes?: string | undefined;
  /** One at least. */
  readonly size: bigint;
  /** Cooling down included. */
  readonly inUse: bigint;
}

/** @returns `undefined` for a pool whose CIDR cannot be read */
export function usageOf(of: Pick<IPPool, "cidr" | "blockSize">, blocks: readonly Versioned<Block>[]): PoolUsage | undefined {
  const parsed = parsePrefix(of.cidr);
  if (parsed === undefined) return undefined;
  const pool = maskPrefix(parsed);
  const inside = placedBlocks(blocks).filter(({ prefix }) => covers(pool, prefix));
  const taken = inside.map(({ block }) => block.allocations.filter((_, ordinal) => !isFree(block, ordinal)).length);
  const sizes = otherSizes(
    of,
    inside.map(({ prefix }) => prefix),
  );
  return { size: sizeOf(pool), inUse: BigInt(taken.reduce((sum, count) => sum + count, 0)), otherSizes: sizes };
}

/** Blocks inside a pool's CIDR, by text that the datastore has made. */
export function isInside({ cidr }: Pick<IPPool, "cidr">, block: string): boolean {
  const parsed = parsePrefix(cidr);
  return parsed !== undefined && covers(maskPrefix(parsed), prefixOf(block));
}

/** Type of the condition; Calico's own conditions of a pool stay as they are. */
export const CONDITION = "tortie.dev/AddressesAvailable";

/** Per cent from which a pool counts as nearly full. */
const NEARLY_FULL = 90;
/** Per cent; a change that is smaller is not worth a write. */
const STEP = 10;

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: "Available" | "NearlyFull" | "Full";
  readonly message: string;
}

export function conditionOf({ size, inUse, otherSizes: sizes }: PoolUsage): Condition {
  const percent = Number((inUse * 100n) / size);
  const isFull = inUse >= size;
  const reason = isFull ? "Full" : percent >= NEARLY_FULL ? "NearlyFull" : "Available";
  const step = Math.floor(percent / STEP) * STEP;
  const fill = isFull ? `all ${size} addresses are in use` : `${step} % or more of ${size} addresses are in use`;
  const message = sizes === undefined ? fill : `${fill}; ${sizes}; next: tortiectl ipam check`;
  return { type: CONDITION, status: isFull ? "False" : "True", reason, message };
}

/** Returns all conditions as they should be; `undefined` when they are so already. @param now RFC 3339 */
export function withCondition(conditions: readonly Fields[], wanted: Condition, now: string): readonly Fields[] | undefined {
  const before = conditions.find((condition) => text(condition, "type") === CONDITION);
  const isSame = before !== undefined && (["status", "reason", "message"] as const).every((member) => before[member] === wanted[member]);
  if (isSame) return undefined;
  const since = before !== undefined && before.status === wanted.status ? text(before, "lastTransitionTime") : "";
  const condition = { ...wanted, lastTransitionTime: since === "" ? now : since };
  return [...conditions.filter((other) => other !== before), condition];
}
