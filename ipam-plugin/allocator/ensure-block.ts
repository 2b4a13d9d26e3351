/** Giving an owner a block ahead of its first address (I§3.12). */
import type { Family } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { EnsureBlockRequest } from "./allocator.ts";
import { freeOrdinals, prefixOf } from "./block.ts";
import { chooseBlock } from "./choose-block.ts";
import { claimBlock, NOT_OURS } from "./claim.ts";
import { type Context, View } from "./context.ts";
import { choosePools, isInside } from "./pools.ts";
import { normalised } from "./release-affinity.ts";

/** CIDRs of the blocks: one with room that the owner has already, or a new one, for each family asked for. */
export async function ensureBlock(context: Context, request: EnsureBlockRequest): Promise<readonly string[]> {
  const view = new View(context.datastore, { owner: request.owner, namespace: request.namespace });
  const cidrs: string[] = [];
  if (request.ipv4) cidrs.push(await ensureFamily(context, view, request, 4));
  if (request.ipv6) cidrs.push(await ensureFamily(context, view, request, 6));
  return cidrs;
}

async function ensureFamily(context: Context, view: View, request: EnsureBlockRequest, family: Family): Promise<string> {
  const { owner, use, reserve, signal } = request;
  const requested = (family === 4 ? request.ipv4Pools : request.ipv6Pools) ?? [];
  const pools = await choosePools(view, { family, requested, use, host: owner.name, reserve });
  const reservations = await view.reservations();
  for (const affinity of await context.datastore.affinities.listByOwner(owner, family)) {
    const { cidr } = affinity.value;
    if (!isInside(pools, prefixOf(cidr))) continue;
    const block = await claimBlock(context, { owner, cidr, affinity, expectBlock: true, reserve }, signal);
    if (block === NOT_OURS) continue;
    if (freeOrdinals(await normalised(context, view, block.value), reservations).length > 0) return cidr;
  }
  if (!(await view.configuration()).autoAllocateBlocks) throw new TortieError("block-unavailable", "failed to find or claim a block");
  const excluded = new Set<string>();
  for (;;) {
    signal?.throwIfAborted();
    const choice = await chooseBlock(context, view, { owner, pools, excluded }, signal);
    if (choice === undefined) throw new TortieError("block-unavailable", "failed to find or claim a block: no free blocks");
    excluded.add(choice.cidr);
    const block = await claimBlock(context, { owner, cidr: choice.cidr, expectBlock: choice.exists, reserve }, signal);
    if (block !== NOT_OURS) return choice.cidr;
  }
}
