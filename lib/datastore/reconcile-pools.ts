/** `Pools.reconcile` for a store without transactions over several objects: one write a pool. */
import type { Pools } from "./datastore.ts";
import type { IPPool } from "./resources.ts";

export async function reconcilePools(
  pools: Pick<Pools, "list" | "create" | "update">,
  decide: (stored: readonly IPPool[]) => readonly IPPool[],
): Promise<void> {
  const stored = await pools.list();
  for (const pool of decide(stored.map(({ value }) => value))) {
    const there = stored.find(({ value }) => value.name === pool.name);
    if (there === undefined) await pools.create(pool.name, pool);
    else await pools.update(pool.name, pool, there.revision);
  }
}
