/** Blocks that a node should give up: empty, in a pool whose node selector does not select it any more (I§3.3, I§4.1.4). */

import { covers } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/datastore.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { familyOf, prefixOf } from "./block.ts";
import type { Context, View } from "./context.ts";
import { enabledPools, selectsNode } from "./pools.ts";
import { releaseAffinity } from "./release-affinity.ts";

/**
 * Gives up those of the owner's blocks that are empty and not for this node any more. Never fails because of what it finds: the
 * request that comes across them has other things to do.
 */
export async function releaseDeselected(
  context: Context,
  view: View,
  owner: BlockOwner,
  cidrs: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const cidr of cidrs) {
    try {
      if (await isDeselected(view, owner, cidr)) await releaseAffinity(context, view, { owner, cidr, mustBeEmpty: true }, signal);
    } catch (error) {
      if (!(error instanceof TortieError)) throw error;
    }
  }
}

/** All of the owner's blocks, for who comes by without a request of his own. */
export async function releaseAllDeselected(
  context: Context,
  view: View,
  owner: BlockOwner,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (const family of [4, 6] as const) {
    const listed = await context.datastore.affinities.listByOwner(owner, family);
    const cidrs = listed.map(({ value }) => value.cidr);
    await releaseDeselected(context, view, owner, cidrs, signal);
  }
}

async function isDeselected(view: View, owner: BlockOwner, cidr: string): Promise<boolean> {
  if (owner.type !== "host") return false;
  const prefix = prefixOf(cidr);
  const pool = (await enabledPools(view, familyOf(cidr))).find((candidate) => covers(candidate.prefix, prefix));
  if (pool === undefined) return false;
  return !(await selectsNode(pool.pool, () => view.nodeLabels(owner)));
}
