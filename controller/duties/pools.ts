/**
 * Pools: a finalizer keeps one that is being deleted until its addresses are free, and a condition says how full it is. Every patch
 * carries the resourceVersion that it was made from. Items are `pool <name>`.
 */
import { isEmpty } from "../../ipam-plugin/allocator/block.ts";
import { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { type ApiGroup, V3_GROUP } from "../../lib/datastore/calico/group.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Fields } from "../../lib/json/decode.ts";
import { ApiError } from "../../lib/kubernetes/api-client.ts";
import { conditionOf, isInside, usageOf, withCondition } from "../judge/pool-usage.ts";
import type { PoolView } from "../view/pool-view.ts";
import type { Duty, DutyContext } from "./duty.ts";

export const FINALIZER = "tortie.dev/pool-addresses";

export class Pools implements Duty {
  readonly name = "pools";
  readonly #context: DutyContext;
  readonly #group: ApiGroup;
  readonly #hasFinalizer: boolean;

  /** @param hasFinalizer `--pool-finalizer`; without it one that is there is taken away */
  constructor(context: DutyContext, group: ApiGroup, hasFinalizer: boolean) {
    this.#context = context;
    this.#group = group;
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
   * No address is given out of a pool that is being deleted, so that blocks which are empty stay so. Nobody writes such a block either:
   * the addresses that were released last cool down in it, and only who looks at the clock sees that they are free.
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
    // Addresses of a pool that was made anew under another name stay with that one.
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

  /** The group v3 has a sub-resource for it; the other one takes it with the pool (manifests/crds). */
  async #putCondition(view: PoolView): Promise<void> {
    const conditions = this.#conditions(view);
    if (conditions !== undefined) await this.#patch(view, this.#group === V3_GROUP ? "/status" : "", { status: { conditions } });
  }

  async #patch({ pool, resourceVersion }: PoolView, rest: string, { metadata = {}, ...patch }: { metadata?: Fields; status?: Fields }) {
    const body = JSON.stringify({ ...patch, metadata: { ...metadata, resourceVersion } });
    const path = `/apis/${this.#group}/ippools/${encodeURIComponent(pool.name)}${rest}`;
    try {
      await this.#context.client.request({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
    } catch (error) {
      // The pool was changed or deleted meanwhile; the next look sees that.
      if (!(error instanceof ApiError && (error.status === 409 || error.status === 404))) throw error;
    }
  }
}

/** The pool's blocks, with addresses free whose cooldown is over. */
async function cooledInside(operation: Operation, pool: PoolView["pool"]): Promise<readonly Versioned<Block>[]> {
  const inside = (await operation.datastore.blocks.list()).filter(({ value }) => isInside(pool, value.cidr));
  return Promise.all(inside.map(async ({ value, revision }) => ({ value: await operation.cooled(value), revision })));
}
