/** Reads everything the check looks at, once; and the same with CIDRs and addresses understood, which all rules share. */
import { DEFAULT_CONFIGURATION } from "../ipam-plugin/allocator/operation.ts";
import {
  type Address,
  addressAt,
  bitsOf,
  type Family,
  formatAddress,
  maskPrefix,
  type Prefix,
  parsePrefix,
  sizeOf,
} from "../lib/addresses/address.ts";
import type { Datastore, Versioned } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { AllocationAttribute, Block, BlockAffinity, Handle, IPPool } from "../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";

export interface Snapshot {
  readonly pools: readonly IPPool[];
  readonly blocks: readonly Versioned<Block>[];
  readonly affinities: readonly Versioned<BlockAffinity>[];
  readonly handles: readonly Versioned<Handle>[];
  readonly endpoints: readonly Versioned<WorkloadEndpoint>[];
  /** How long a released address is kept back; `undefined` where the configuration cannot be read. */
  readonly cooldownSeconds: number | undefined;
}

/** Says how the check judges. */
export interface Judgement {
  readonly nowMs: number;
  /** Leaves unused addresses alone that are younger: an ADD writes its endpoint last. */
  readonly graceMs: number;
  /** Judge addresses also on nodes that record no endpoint at all (a main plugin other than tortie keeps none). */
  readonly isStrict: boolean;
}

/** Reads it all. The lists are not of one instant: `standing` tells what is wrong from what was under way. */
export async function readSnapshot(datastore: Datastore): Promise<Snapshot> {
  const pools = (await datastore.pools.list()).map(({ value }) => value);
  const blocks = await datastore.blocks.list();
  const affinities = await datastore.affinities.listAll();
  const handles = await datastore.handles.list();
  const endpoints = await datastore.endpoints.list();
  const cooldownSeconds = await readCooldown(datastore);
  return { pools, blocks, affinities, handles, endpoints, cooldownSeconds };
}

async function readCooldown(datastore: Datastore): Promise<number | undefined> {
  try {
    return ((await datastore.ipamConfiguration.get("default"))?.value ?? DEFAULT_CONFIGURATION).ipCooldownSeconds;
  } catch (error) {
    if (isDatastoreFailure(error, "invalid")) return undefined;
    throw error;
  }
}

/** Describes a block whose CIDR can be read. */
export interface PlacedBlock {
  readonly block: Block;
  readonly revision: string;
  readonly prefix: Prefix;
  readonly size: number;
}

export function placedBlock({ value: block, revision }: Versioned<Block>): PlacedBlock | undefined {
  const prefix = parsePrefix(block.cidr);
  // Calico's blocks hold at most 4096 addresses (I§2.7); walking a much larger one would take too long.
  if (prefix === undefined || maskPrefix(prefix).address.value !== prefix.address.value || sizeOf(prefix) > 65536n) return undefined;
  return { block, revision, prefix, size: Number(sizeOf(prefix)) };
}

/** Returns blocks in the order of their first addresses, IPv4 first, larger ones before those inside them. */
export function placedBlocks(blocks: readonly Versioned<Block>[]): readonly PlacedBlock[] {
  const placed = blocks.flatMap((block) => placedBlock(block) ?? []);
  return placed.sort((a, b) => {
    const [x, y] = [a.prefix, b.prefix];
    if (x.address.family !== y.address.family) return x.address.family - y.address.family;
    if (x.address.value !== y.address.value) return x.address.value < y.address.value ? -1 : 1;
    return x.length - y.length;
  });
}

/** Finds the blocks that hold an address: more than one only where blocks overlap. */
export class BlockIndex {
  /** Finds blocks by prefix length, then by family and first address. */
  readonly #byLength = new Map<number, Map<string, PlacedBlock>>();

  constructor(blocks: readonly PlacedBlock[]) {
    for (const placed of blocks) {
      const { address, length } = placed.prefix;
      this.#byLength.getOrInsertComputed(length, () => new Map()).set(keyOf(address), placed);
    }
  }

  holding(address: Address): readonly PlacedBlock[] {
    return [...this.#byLength].flatMap(([length, blocks]) =>
      length > bitsOf(address.family) ? [] : (blocks.get(keyOf(maskPrefix({ address, length }).address)) ?? []),
    );
  }
}

export function textAt({ prefix }: PlacedBlock, ordinal: number): string {
  return formatAddress(addressAt(prefix, ordinal));
}

/** Describes one address that a block says is taken; cooldown left out. */
export interface Allocation {
  readonly placed: PlacedBlock;
  readonly ordinal: number;
  readonly attribute: AllocationAttribute;
}

/** Lists the addresses taken in a block, in order. */
export function allocationsOf(placed: PlacedBlock): readonly Allocation[] {
  return placed.block.allocations.flatMap((_, ordinal) => allocationAt(placed, ordinal) ?? []);
}

/** Returns the allocation; `undefined`: free, cooling down, or outside of the block. A missing attribute counts as an empty one. */
export function allocationAt(placed: PlacedBlock, ordinal: number): Allocation | undefined {
  const index = placed.block.allocations[ordinal] ?? null;
  if (index === null || ordinal >= placed.size) return undefined;
  const attribute = placed.block.attributes[index] ?? {};
  return attribute.releasedAt === undefined ? { placed, ordinal, attribute } : undefined;
}

/** Makes a key of maps for an address. */
export function keyOf({ family, value }: Address): string {
  return `${family}:${value}`;
}

/** Lists the addresses of an endpoint; skips text that is not an address. */
export function addressesOf(endpoint: WorkloadEndpoint): readonly Address[] {
  return endpoint.ipNetworks.flatMap((text) => parsePrefix(text)?.address ?? []);
}

export interface PlacedPool {
  readonly pool: IPPool;
  readonly prefix: Prefix;
}

export function placedPools(pools: readonly IPPool[]): readonly PlacedPool[] {
  return pools.flatMap((pool) => {
    const prefix = parsePrefix(pool.cidr);
    return prefix === undefined ? [] : [{ pool, prefix: maskPrefix(prefix) }];
  });
}

export function hasFamily(pools: readonly PlacedPool[], family: Family): boolean {
  return pools.some(({ prefix }) => prefix.address.family === family);
}
