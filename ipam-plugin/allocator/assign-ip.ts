/** Assignment of one address that was asked for (I§3.11): no selectors, no reservations, no limits, only its pool and its block. */
import { type Address, contains, formatAddress, formatPrefix, hostPrefix } from "../../lib/addresses/address.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { allocate, holderOf, isFree, isOwnedBy, ordinalOf, sanitised, sequenceOf } from "./block.ts";
import { claimBlock, NOT_OURS } from "./claim-block.ts";
import { type Grant, writeGrant } from "./grant.ts";
import { AT_LIMIT } from "./handle.ts";
import { addressesByHandle, reusable } from "./lookup.ts";
import { AGAIN, type Operation } from "./operation.ts";
import { allows, blockPrefixOf, enabledPools } from "./pools.ts";
import type { AssignedAddress, AssignIpRequest } from "./types.ts";
import { HandleExistsError } from "./types.ts";

/**
 * The address as /32 or /128.
 * @throws TortieError `address-outside-pools`, `address-taken`, `pool-use`, `handle-limit`, `affinity-strict`
 */
export async function assignIp(operation: Operation, request: AssignIpRequest): Promise<AssignedAddress> {
  const { address, handle, attributes, owner } = request;
  const prefix = await blockPrefix(operation, request);
  const cidr = formatPrefix(prefix);
  const ordinal = ordinalOf(prefix, address) ?? 0;
  const grant: Grant = {
    handle,
    attribute: { handleId: handle, activeOwner: attributes },
    limit: request.perHandleLimit ?? 0,
    known: undefined,
    mustBeNew: request.mustBeNew ?? false,
  };
  return operation.retry(`block ${cidr}`, async () => {
    const stored = (await operation.datastore.blocks.get(cidr)) ?? (await claimBlock(operation, { owner, cidr, expectBlock: false }));
    if (stored === NOT_OURS) return AGAIN;
    await refuseForeign(operation, stored.value, request);
    const block = await operation.normalised(stored.value);
    if (!isFree(block, ordinal)) {
      const isOurs = sanitised(holderOf(block, ordinal)?.handleId ?? "") === handle;
      if (isOurs && grant.limit > 0) return { result: reused(address, cidr, sequenceOf(block, ordinal)) };
      throw isOurs && grant.mustBeNew ? new HandleExistsError(handle) : taken(address);
    }
    const changed = allocate(block, [ordinal], grant.attribute);
    const outcome = await writeGrant(operation, stored, changed, [ordinal], grant);
    if (outcome === AT_LIMIT) return onLimit(operation, request);
    if (outcome === AGAIN) return AGAIN;
    return { result: { prefix: hostPrefix(address), block: cidr, sequenceNumber: sequenceOf(changed, ordinal), isReused: false } };
  });
}

async function blockPrefix(operation: Operation, { address, use }: AssignIpRequest) {
  const pool = (await enabledPools(operation, address.family)).find(({ prefix }) => contains(prefix, address));
  if (pool === undefined) throw new TortieError("address-outside-pools", "The provided IP address is not in a configured pool\n");
  if (use !== undefined && !allows(pool.pool, use)) {
    throw new TortieError(
      "pool-use",
      `IP address ${formatAddress(address)} is in IP pool "${pool.pool.name}", which is not allowed for use "${use}" (allowedUses: [${pool.pool.allowedUses.join(" ")}])`,
    );
  }
  return blockPrefixOf(pool, address);
}

/** Strict affinity: a node takes addresses only from blocks of its own. */
async function refuseForeign(operation: Operation, block: Block, { owner }: AssignIpRequest): Promise<void> {
  if (isOwnedBy(block, owner) || !(await operation.configuration()).strictAffinity) return;
  if (block.affinity !== undefined) throw new TortieError("affinity-strict", "Block host affinity does not match");
  throw new TortieError("affinity-strict", `Attempt to assign from block ${block.cidr} with no affinity`);
}

/**
 * The handle counts as many addresses as it may. Succeeds if it holds the address, refuses if it holds others, and
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
