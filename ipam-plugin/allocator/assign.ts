/** Assigns addresses of both families automatically, and takes them back (I§3.1). */

import { type Address, type Family, formatAddress, formatPrefix, hostPrefix } from "../../lib/addresses/address.ts";
import { type Block, sanitised } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { once } from "../../lib/system/waiting.ts";
import { claimBlock, NOT_OURS } from "./affinity.ts";
import { assignFamily } from "./auto-assign-family.ts";
import { holderOf, isFree, isOwnedBy, ordinalOf, prefixOf, sequenceOf } from "./block.ts";
import { GrantPart, type GrantRequest } from "./grant.ts";
import { AT_LIMIT, countOf } from "./handle.ts";
import { addressesByHandle, reusable, storedBlockOf } from "./lookup.ts";
import type { Operation } from "./operation.ts";
import { allows, blockPrefixOf, enabledPools, poolOf, resolvePools } from "./pools.ts";
import { isGone, releaseIps } from "./release-ips.ts";
import {
  AGAIN,
  type AssignedAddress,
  type AssignIpRequest,
  type AutoAssignRequest,
  type AutoAssignResult,
  type FamilyAssignment,
  type FamilyRequest,
  type GiveBackOptions,
  HandleExistsError,
} from "./types.ts";

/** Does IPv4 before IPv6 begins; an error of the first leaves the second out (I§3.1). */
export async function autoAssign(operation: Operation, request: AutoAssignRequest): Promise<AutoAssignResult> {
  const grant = grantFor(request);
  const ask4 = request.count4 > 0 ? familyRequest(operation, request, 4) : undefined;
  const ask6 = request.count6 > 0 ? familyRequest(operation, request, 6) : undefined;

  const refusal = await refusedPools(operation, request);
  if (refusal !== undefined) return { ipv4: { family: 4, requested: request.count4, addresses: [], messages: [], error: refusal } };
  const ipv4 = ask4 === undefined ? undefined : await assignWithinLimit(operation, ask4, grant);
  if (ipv4?.error !== undefined) return { ipv4 };
  const ipv6 = ask6 === undefined ? undefined : await assignWithinLimit(operation, ask6, grant);
  return { ipv4, ipv6 };
}

/** Finds refused pools: a wrong entry is wrong, whether its family is asked for or not (recording pools-wrong-family-off). */
async function refusedPools(operation: Operation, { ipv4Pools = [], ipv6Pools = [] }: AutoAssignRequest): Promise<Error | undefined> {
  try {
    await resolvePools(operation, ipv4Pools, 4);
    await resolvePools(operation, ipv6Pools, 6);
    return undefined;
  } catch (error) {
    return errorOf(error);
  }
}

/** Releases what an assignment took, by handle and sequence number: an address that has another holder since stays untouched. */
export async function giveBack(
  operation: Operation,
  result: AutoAssignResult,
  handle: string,
  { owners, neverUsed }: GiveBackOptions,
): Promise<void> {
  const options = [result.ipv4, result.ipv6]
    .flatMap((family) => family?.addresses ?? [])
    .filter((address) => !address.isReused)
    .map(({ prefix, block, sequenceNumber }) => ({ address: prefix.address, block, handle, sequenceNumber, owners, neverUsed }));
  if (options.length === 0) return;
  const { error } = await releaseIps(operation, options);
  if (error !== undefined && !isGone(error)) throw error;
}

/** Writes the message for an assignment with fewer addresses than requested (I§1.10). */
export function shortageText({ family, requested, addresses, messages }: FamilyAssignment): string {
  return [`Assigned ${addresses.length} out of ${requested} requested IPv${family} addresses`, ...messages].join("; ");
}

/** Lets a handle that may hold only so many keep what it has, even when no pool could give it anything now (I§3.9). */
async function assignWithinLimit(operation: Operation, request: FamilyRequest, grant: GrantRequest): Promise<FamilyAssignment> {
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
    withRoom: traits.findsRoom ? once(async () => (await blocks.listWithRoom?.(request.owner, family)) ?? []) : undefined,
  };
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

function grantFor(request: Pick<AutoAssignRequest, "handle" | "attributes" | "perHandleLimit" | "mustBeNew">): GrantRequest {
  const { handle, attributes, perHandleLimit: limit = 0, mustBeNew = false } = request;
  return { handle, attribute: { handleId: handle, activeOwner: attributes }, limit, known: undefined, mustBeNew };
}

/**
 * Assigns one address that was asked for (I§3.11): no selectors, no reservations, no limits, only its pool and its block.
 * @returns the address as /32 or /128
 * @throws TortieError `address-outside-pools`, `address-taken`, `blocks-overlap`, `pool-use`, `handle-limit`, `affinity-strict`
 */
export async function assignIp(operation: Operation, request: AssignIpRequest): Promise<AssignedAddress> {
  const { address, handle, owner } = request;
  const place = formatPrefix(await blockPrefix(operation, request));
  const grant = grantFor(request);
  return operation.retry(`block ${place}`, async () => {
    const stored =
      (await storedBlockOf(operation, place, address)) ?? (await claimBlock(operation, { owner, cidr: place, expectBlock: false }));
    if (stored === NOT_OURS) return AGAIN;
    const { cidr } = stored.value;
    const ordinal = ordinalOf(prefixOf(cidr), address) ?? 0;
    await refuseForeign(operation, stored.value, request);
    const block = await operation.normalised(stored.value);
    if (!isFree(block, ordinal)) {
      const isOurs = sanitised(holderOf(block, ordinal)?.handleId ?? "") === handle;
      if (isOurs && grant.limit > 0) return { result: reused(address, cidr, sequenceOf(block, ordinal)) };
      throw isOurs && grant.mustBeNew ? new HandleExistsError(handle) : taken(address);
    }
    // Whether it is the owner's was looked at above, so that it must still be so when it is written.
    const wasOwned = isOwnedBy(block, owner);
    const from = (now: Block) => (isFree(now, ordinal) && (isOwnedBy(now, owner) || !wasOwned) ? [ordinal] : []);
    const outcome = await operation.writer.write(new GrantPart(operation, { cidr, count: 1, from }, grant), stored);
    if (outcome === AGAIN) return AGAIN;
    if (outcome.result === AT_LIMIT) return onLimit(operation, request);
    const [assigned] = outcome.result;
    return assigned === undefined ? AGAIN : { result: { ...assigned, prefix: hostPrefix(address) } };
  });
}

async function blockPrefix(operation: Operation, { address, use }: AssignIpRequest) {
  const pool = poolOf(await enabledPools(operation, address.family), address);
  if (pool === undefined) throw new TortieError("address-outside-pools", "The provided IP address is not in a configured pool\n");
  if (use !== undefined && !allows(pool.pool, use)) {
    throw new TortieError(
      "pool-use",
      `IP address ${formatAddress(address)} is in IP pool "${pool.pool.name}", which is not allowed for use "${use}" (allowedUses: [${pool.pool.allowedUses.join(" ")}])`,
    );
  }
  return blockPrefixOf(pool, address);
}

/** Enforces strict affinity: a node takes addresses only from blocks of its own. */
async function refuseForeign(operation: Operation, block: Block, { owner }: AssignIpRequest): Promise<void> {
  if (isOwnedBy(block, owner) || !(await operation.configuration()).strictAffinity) return;
  if (block.affinity !== undefined) throw new TortieError("affinity-strict", "Block host affinity does not match");
  throw new TortieError("affinity-strict", `Attempt to assign from block ${block.cidr} with no affinity`);
}

/**
 * Deals with a handle that counts as many addresses as it may. Succeeds if it holds the address, refuses if it holds others, and
 * corrects its counts if it holds none.
 */
async function onLimit(operation: Operation, { address, handle }: AssignIpRequest) {
  const held = (await addressesByHandle(operation, handle))?.filter((other) => other.address.family === address.family) ?? [];
  const same = held.find((other) => other.address.value === address.value);
  if (same !== undefined) return { result: reused(address, same.block, same.sequenceNumber) };
  if (held.length === 0) {
    await reusable(operation, handle, address.family, 1);
    return AGAIN;
  }
  throw new TortieError(
    "handle-limit",
    `handle ${handle} already has IP(s) allocated, cannot assign additional IP ${formatAddress(address)}`,
  );
}

function reused(address: Address, block: string, sequenceNumber: bigint): AssignedAddress {
  return { prefix: hostPrefix(address), block, sequenceNumber, isReused: true };
}

function taken(address: Address): TortieError {
  return new TortieError(
    "address-taken",
    `resource already exists: ${formatAddress(address)} with error: Address already assigned in block`,
  );
}
