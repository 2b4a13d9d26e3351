/** Automatic assignment of both families, taking it back, and giving an owner a block ahead of its first address (I§3.1, I§3.12). */
import type { Family } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { once } from "../../lib/system/waiting.ts";
import { assignFamily, type FamilyRequest } from "./auto-assign-family.ts";
import { freeOrdinals, prefixOf } from "./block.ts";
import { chooseBlock } from "./choose-block.ts";
import { claimBlock, NOT_OURS } from "./claim-block.ts";
import type { Grant } from "./grant.ts";
import { countOf } from "./handle.ts";
import { reusable } from "./lookup.ts";
import type { Operation } from "./operation.ts";
import { choosePools, isInside, resolvePools } from "./pools.ts";
import { isGone, releaseIps } from "./release-ips.ts";
import type { AutoAssignRequest, AutoAssignResult, EnsureBlockRequest, FamilyAssignment, GiveBackOptions } from "./types.ts";

/** IPv4 is done before IPv6 begins; an error of the first leaves the second out (I§3.1). */
export async function autoAssign(operation: Operation, request: AutoAssignRequest): Promise<AutoAssignResult> {
  const { handle, attributes } = request;
  const grant: Grant = {
    handle,
    attribute: { handleId: handle, activeOwner: attributes },
    limit: request.perHandleLimit ?? 0,
    known: undefined,
    mustBeNew: request.mustBeNew ?? false,
  };
  const ask4 = request.count4 > 0 ? familyRequest(operation, request, 4) : undefined;
  const ask6 = request.count6 > 0 ? familyRequest(operation, request, 6) : undefined;

  const refusal = await refusedPools(operation, request);
  if (refusal !== undefined) return { ipv4: { family: 4, requested: request.count4, addresses: [], messages: [], error: refusal } };
  const ipv4 = ask4 === undefined ? undefined : await assignWithinLimit(operation, ask4, grant);
  if (ipv4?.error !== undefined) return { ipv4 };
  const ipv6 = ask6 === undefined ? undefined : await assignWithinLimit(operation, ask6, grant);
  return { ...(ipv4 === undefined ? {} : { ipv4 }), ...(ipv6 === undefined ? {} : { ipv6 }) };
}

/** A wrong entry is wrong, whether its family is asked for or not (recording pools-wrong-family-off). */
async function refusedPools(operation: Operation, { ipv4Pools = [], ipv6Pools = [] }: AutoAssignRequest): Promise<Error | undefined> {
  try {
    await resolvePools(operation, ipv4Pools, 4);
    await resolvePools(operation, ipv6Pools, 6);
    return undefined;
  } catch (error) {
    return errorOf(error);
  }
}

/** Releases what an assignment took, by handle and sequence number: an address that has another holder by now stays untouched. */
export async function giveBack(
  operation: Operation,
  result: AutoAssignResult,
  handle: string,
  { owners, neverUsed }: GiveBackOptions,
): Promise<void> {
  const options = [result.ipv4, result.ipv6]
    .flatMap((family) => family?.addresses ?? [])
    .filter((address) => !address.isReused)
    .map(({ prefix, block, sequenceNumber }) => ({
      address: prefix.address,
      block,
      handle,
      sequenceNumber,
      ...(owners === undefined ? {} : { owners }),
      ...(neverUsed === undefined ? {} : { neverUsed }),
    }));
  if (options.length === 0) return;
  const { error } = await releaseIps(operation, options);
  if (error !== undefined && !isGone(error)) throw error;
}

/** Message for an assignment with fewer addresses than requested (I§1.10). */
export function shortageText({ family, requested, addresses, messages }: FamilyAssignment, reserveHandle?: string): string {
  const parts = [`Assigned ${addresses.length} out of ${requested} requested IPv${family} addresses`, ...messages];
  if (reserveHandle !== undefined) parts.push(`HostReservedAttr: ${reserveHandle}`);
  return parts.join("; ");
}

/** A handle that may hold only so many keeps what it has, even when no pool could give it anything now (I§3.9). */
async function assignWithinLimit(operation: Operation, request: FamilyRequest, grant: Grant): Promise<FamilyAssignment> {
  const { family, count } = request;
  if (grant.limit > 0 && !grant.mustBeNew) {
    try {
      const stored = grant.known ?? (await operation.datastore.handles.get(grant.handle));
      grant.known = stored;
      if (stored !== undefined && countOf(stored.value, family) + count > grant.limit) {
        const held = await reusable(operation, grant.handle, family, count);
        grant.known = undefined;
        if (held !== undefined) return { family, requested: count, addresses: held, messages: [] };
      }
    } catch (error) {
      return { family, requested: count, addresses: [], messages: [], error: errorOf(error) };
    }
  }
  return assignFamily(operation, request, grant);
}

function familyRequest(operation: Operation, request: AutoAssignRequest, family: Family): FamilyRequest {
  const { blocks, traits } = operation.datastore;
  return {
    family,
    count: family === 4 ? request.count4 : request.count6,
    owner: request.owner,
    requestedPools: (family === 4 ? request.ipv4Pools : request.ipv6Pools) ?? [],
    use: request.use,
    blockLimit: request.perRequestBlockLimit ?? 0,
    reserve: request.reserve,
    withRoom: traits.findsRoom ? once(async () => (await blocks.listWithRoom?.(request.owner, family)) ?? []) : undefined,
  };
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

/** CIDRs of the blocks: one with room that the owner has already, or a new one, for each family asked for. */
export async function ensureBlock(operation: Operation, request: EnsureBlockRequest): Promise<readonly string[]> {
  const cidrs: string[] = [];
  if (request.ipv4) cidrs.push(await ensureFamily(operation, request, 4));
  if (request.ipv6) cidrs.push(await ensureFamily(operation, request, 6));
  return cidrs;
}

async function ensureFamily(operation: Operation, request: EnsureBlockRequest, family: Family): Promise<string> {
  const { owner, use, reserve } = request;
  const requested = (family === 4 ? request.ipv4Pools : request.ipv6Pools) ?? [];
  const pools = await choosePools(operation, { family, requested, use, host: owner.name, reserve });
  const reservations = await operation.reservations();
  for (const affinity of await operation.datastore.affinities.listByOwner(owner, family)) {
    const { cidr } = affinity.value;
    if (!isInside(pools, prefixOf(cidr))) continue;
    const block = await claimBlock(operation, { owner, cidr, affinity, expectBlock: true, reserve });
    if (block === NOT_OURS) continue;
    if (freeOrdinals(await operation.normalised(block.value), reservations).length > 0) return cidr;
  }
  if (!(await operation.configuration()).autoAllocateBlocks) throw new TortieError("block-unavailable", "failed to find or claim a block");
  const excluded = new Set<string>();
  for (;;) {
    operation.signal?.throwIfAborted();
    const choice = await chooseBlock(operation, { owner, pools, excluded });
    if (choice === undefined) throw new TortieError("block-unavailable", "failed to find or claim a block: no free blocks");
    excluded.add(choice.cidr);
    const block = await claimBlock(operation, { owner, cidr: choice.cidr, expectBlock: choice.exists, reserve });
    if (block !== NOT_OURS) return choice.cidr;
  }
}
