/** Tells which pools may serve a request (I§3.2), and where the blocks of a pool lie. */
import {
  type Address,
  addressAt,
  bitsOf,
  contains,
  covers,
  type Family,
  formatAddress,
  formatPrefix,
  maskPrefix,
  type Prefix,
  parsePrefix,
} from "../../lib/addresses/address.ts";
import { isRefusal } from "../../lib/datastore/errors.ts";
import type { IPPool } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { excerpt } from "../../lib/log/format.ts";
import { type Labels, selects } from "../../lib/selector/selector.ts";
import type { Operation } from "./operation.ts";
import type { PoolUse } from "./types.ts";

/** Entries come from annotations too, which may have 256 KiB; no name or CIDR is longer than this. */
const SHOWN_OF_ENTRY = 253;

/** Describes a pool whose CIDR has been read. */
export interface UsablePool {
  readonly pool: IPPool;
  /** Masked. */
  readonly prefix: Prefix;
  /** Canonical text. */
  readonly cidr: string;
}

interface PoolRequest {
  readonly family: Family;
  /** CIDRs or names; when there are any, selectors and assignment mode do not count. */
  readonly requested: readonly string[];
  readonly use: PoolUse;
  /** For the message. */
  readonly host: string;
}

/**
 * Returns the pools that may serve, in the order to try them: as requested, or by name.
 * @throws TortieError `pool-none`, `pool-unknown`, `pool-family`, `pool-unselected`, `pool-use`, `selector-syntax`
 */
export async function choosePools(operation: Operation, request: PoolRequest): Promise<readonly UsablePool[]> {
  const mayBeOld = operation.mayBeOld("pools");
  try {
    return await choose(operation, request);
  } catch (error) {
    // A refusal needs a fresh list.
    if (!isRefusal(error) || !mayBeOld) throw error;
    operation.refresh("pools");
    return choose(operation, request);
  }
}

async function choose(operation: Operation, request: PoolRequest): Promise<readonly UsablePool[]> {
  const enabled = await enabledPools(operation, request.family);
  if (enabled.length === 0) {
    throw new TortieError("pool-none", "cannot find a qualified ippool", { details: `no IPv${request.family} pool is enabled` });
  }
  const candidates =
    request.requested.length > 0 ? await asRequested(operation, enabled, request) : await bySelectors(operation, enabled, request.host);
  const allowed = candidates.filter(({ pool }) => allows(pool, request.use));
  if (allowed.length === 0) {
    throw new TortieError("pool-use", `cannot find a qualified ippool, no pools match the required use (${request.use})`, {
      details: `allowedUses of ${namesOf(candidates)}`,
    });
  }
  return allowed;
}

/** Lists names for the details of an error, because Calico's wording has none. */
function namesOf(pools: readonly UsablePool[]): string {
  return pools.map(({ pool, cidr }) => `${pool.name} (${cidr})`).join(", ");
}

/** Lists the pools of a family from which addresses may be taken, by name (I§2.7). */
export async function enabledPools(operation: Operation, family: Family): Promise<readonly UsablePool[]> {
  return usable(await operation.pools()).filter(
    ({ pool, prefix }) => prefix.address.family === family && !pool.disabled && !pool.deleting && pool.allocatable !== false,
  );
}

/** Lists the pools with a readable CIDR, disabled ones too: for releasing. */
export function usable(pools: readonly IPPool[]): readonly UsablePool[] {
  const result: UsablePool[] = [];
  for (const pool of pools) {
    const parsed = parsePrefix(pool.cidr);
    if (parsed === undefined) continue;
    const prefix = maskPrefix(parsed);
    result.push({ pool, prefix, cidr: formatPrefix(prefix) });
  }
  return result;
}

/** Finds the first pool, by name, that holds the address. */
export function poolOf(pools: readonly UsablePool[], address: Address): UsablePool | undefined {
  return pools.find(({ prefix }) => contains(prefix, address));
}

/** Computes the CIDR of the block of a pool that an address belongs to. */
export function blockPrefixOf(pool: UsablePool, address: Address): Prefix {
  return maskPrefix({ address, length: pool.pool.blockSize });
}

/** Tells whether blocks of one choice are blocks of the other. */
export function areSamePools(pools: readonly UsablePool[], others: readonly UsablePool[]): boolean {
  const textOf = ({ pool, cidr }: UsablePool) => `${cidr} ${pool.blockSize}`;
  return pools.map(textOf).join() === others.map(textOf).join();
}

export function isInside(pools: readonly UsablePool[], block: Prefix): boolean {
  return pools.some(({ prefix }) => covers(prefix, block));
}

/** Tells whether the pool allows a use. An empty list is the default of the field, not "no use" (recording uses-empty). */
export function allows(pool: IPPool, use: PoolUse): boolean {
  return pool.allowedUses.length === 0 ? use !== "LoadBalancer" : pool.allowedUses.includes(use);
}

/** Tells whether the pool selects a node. */
export function selectsNode(pool: IPPool, readLabels: () => Promise<Labels>): Promise<boolean> {
  return selects(pool.nodeSelector, `nodeSelector of pool "${pool.name}"`, readLabels);
}

/**
 * Returns CIDRs of pools given as CIDR or by name (I§3.2.1); pools are read only when a name occurs.
 * @throws TortieError `pool-entry-invalid`, `pool-family`
 */
export async function resolvePools(operation: Operation, entries: readonly string[], family: Family): Promise<readonly string[]> {
  const resolved: string[] = [];
  for (const entry of entries) {
    const { address, length } = await prefixNamed(operation, entry);
    if (address.family !== family) throw new TortieError("pool-family", `"${formatAddress(address)}" isn't a IPv${family} address`);
    resolved.push(formatPrefix({ address, length }));
  }
  return resolved;
}

/** Returns the masked CIDR of a pool. A refusal needs a fresh list. @throws TortieError `pool-entry-invalid` */
async function prefixNamed(operation: Operation, entry: string): Promise<Prefix> {
  const prefix = parsePrefix(entry) ?? (await poolNamed(operation, entry))?.prefix;
  if (prefix !== undefined) return maskPrefix(prefix);
  if (!operation.mayBeOld("pools")) {
    const shown = excerpt(entry, SHOWN_OF_ENTRY);
    throw new TortieError("pool-entry-invalid", `error parsing pool "${shown}": invalid CIDR address: ${shown}`);
  }
  operation.refresh("pools");
  return prefixNamed(operation, entry);
}

async function poolNamed(operation: Operation, name: string): Promise<UsablePool | undefined> {
  return usable(await operation.pools()).find(({ pool }) => pool.name === name);
}

async function asRequested(
  operation: Operation,
  enabled: readonly UsablePool[],
  { requested, family }: PoolRequest,
): Promise<readonly UsablePool[]> {
  const other = family === 4 ? 6 : 4;
  const chosen = new Map<string, UsablePool>();
  for (const entry of requested) {
    const prefix = await prefixNamed(operation, entry);
    const cidr = formatPrefix(prefix);
    if (prefix.address.family === other) {
      throw new TortieError("pool-family", `provided IPv${family} IPPools list contains one or more IPv${other} IPPools: ${cidr}`);
    }
    const pool = enabled.find((candidate) => candidate.cidr === cidr);
    if (pool === undefined) throw new TortieError("pool-unknown", `the given pool (${cidr}) does not exist, or is not enabled`);
    chosen.set(cidr, pool);
  }
  return [...chosen.values()];
}

async function bySelectors(operation: Operation, enabled: readonly UsablePool[], host: string): Promise<readonly UsablePool[]> {
  const selected: UsablePool[] = [];
  for (const candidate of enabled) {
    const { pool } = candidate;
    if (pool.assignmentMode !== "Automatic" || !(await selectsNode(pool, () => operation.nodeLabels()))) continue;
    if (!(await selects(pool.namespaceSelector, `namespaceSelector of pool "${pool.name}"`, operation.namespaceLabels))) continue;
    selected.push(candidate);
  }
  if (selected.length === 0) throw new TortieError("pool-unselected", `no configured Calico pools for node ${host}`);
  return selected;
}

/** Counts how many blocks a pool has; none when its blocks are larger than itself. */
export function blockCount({ pool, prefix }: UsablePool): bigint {
  const bits = pool.blockSize - prefix.length;
  return bits < 0 ? 0n : 1n << BigInt(bits);
}

export function blockAt({ pool, prefix }: UsablePool, index: bigint): { readonly prefix: Prefix; readonly cidr: string } {
  const block = { address: addressAt(prefix, index << hostBits(pool.blockSize, prefix)), length: pool.blockSize };
  return { prefix: block, cidr: formatPrefix(block) };
}

/** Returns the number of the block that begins at, or holds, an address value inside the pool. */
export function indexOf({ pool, prefix }: UsablePool, address: bigint): bigint {
  return (address - prefix.address.value) >> hostBits(pool.blockSize, prefix);
}

function hostBits(blockSize: number, prefix: Prefix): bigint {
  return BigInt(bitsOf(prefix.address.family) - blockSize);
}
