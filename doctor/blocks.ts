/**
 * Finds what is wrong with blocks: with each alone (I§2.4, invariants 6 to 10 of I§5.5), against the pools, of which every block is an aligned
 * part of the pool's block size, and against each other. Mending one block is a pure change of it, written at the revision that was judged.
 */

import { releaseAffinity } from "../ipam-plugin/allocator/affinity.ts";
import { compacted, freeOrdinals, isEmpty, nextSequence, rfc3339 } from "../ipam-plugin/allocator/block.ts";
import { Reservations } from "../ipam-plugin/allocator/reservations.ts";
import { covers, formatPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { Versioned } from "../lib/datastore/datastore.ts";
import type { Block, IPPool } from "../lib/datastore/resources.ts";
import {
  blockProblem,
  count,
  enumerate,
  GONE,
  MENDED,
  type Problem,
  type ProblemFacts,
  type ProblemKind,
  problem,
  type Repair,
  type RepairOutcome,
} from "./problem.ts";
import { type PlacedBlock, type PlacedPool, placedBlock, placedBlocks, placedPools, textAt } from "./snapshot.ts";

/** Ignores smaller differences between the clocks of nodes, since releases are stored in whole seconds. */
const CLOCK_SKEW_MS = 60_000;

/** Problems of one block by itself. */
export function blockProblems(stored: Versioned<Block>, nowMs: number): readonly Problem[] {
  const { cidr } = stored.value;
  const placed = placedBlock(stored);
  if (placed === undefined) return [blockProblem("block-cidr", cidr, `"${cidr}" is not the CIDR of a block`)];
  const found: Found = (kind, message, ordinals = [], more = {}) =>
    blockProblem(kind, cidr, message, { addresses: ordinals.map((ordinal) => textAt(placed, ordinal)), ...more });
  return [...lengthProblem(placed, found), ...attributeProblems(placed, found, nowMs), ...queueProblems(placed, found)];
}

type Found = (kind: ProblemKind, message: string, ordinals?: readonly number[], more?: Partial<ProblemFacts>) => Problem;

function lengthProblem({ block, size }: PlacedBlock, found: Found): readonly Problem[] {
  const { length } = block.allocations;
  if (length === size) return [];
  const isRepairable = block.allocations.slice(size).every((index) => index === null);
  return [found("block-length", `has ${count(length, "ordinal")}, its CIDR has ${size}`, [], { isRepairable })];
}

function attributeProblems(placed: PlacedBlock, found: Found, nowMs: number): readonly Problem[] {
  const { attributes, allocations } = placed.block;
  const problems: Problem[] = [];

  const homeless = ordinalsWhere(placed, (index) => index !== null && attributes[index] === undefined);
  if (homeless.length > 0) {
    problems.push(
      found("allocation-without-attribute", `${named(placed, homeless)} allocated with an attribute that does not exist`, homeless),
    );
  }
  const used = new Set(allocations);
  const unused = attributes.flatMap((_, index) => (used.has(index) ? [] : [index]));
  if (unused.length > 0) {
    const which = unused.map(
      (index) => `${index}${attributes[index]?.handleId === undefined ? "" : ` (handle ${attributes[index].handleId})`}`,
    );
    problems.push(found("attribute-unreferenced", `no address refers to attribute ${enumerate(which)}`));
  }
  const early = ordinalsWhere(placed, (index) => index !== null && isInFuture(attributes[index]?.releasedAt, nowMs));
  if (early.length > 0) {
    const index = allocations[early[0] ?? 0] ?? -1;
    problems.push(
      found("release-in-future", `${named(placed, early)} released at ${attributes[index]?.releasedAt}, which is yet to come`, early),
    );
  }
  return problems;
}

function queueProblems(placed: PlacedBlock, found: Found): readonly Problem[] {
  const { block, size } = placed;
  const problems: Problem[] = [];
  const outside = block.unallocated.filter((ordinal) => !isOrdinal(ordinal, size));
  if (outside.length > 0) {
    problems.push(found("free-out-of-range", `lists ordinal ${enumerate(outside.map(String))} as free, the last one is ${size - 1}`));
  }
  const listed = new Set<number>();
  const twice = new Set<number>();
  for (const ordinal of block.unallocated) {
    if (!isOrdinal(ordinal, size)) continue;
    if (listed.has(ordinal)) twice.add(ordinal);
    listed.add(ordinal);
  }
  if (twice.size > 0) problems.push(found("free-duplicate", `${named(placed, [...twice])} listed as free more than once`, [...twice]));
  const both = ordinalsWhere(placed, (index, ordinal) => index !== null && listed.has(ordinal));
  if (both.length > 0) problems.push(found("free-allocated", `${named(placed, both)} listed as free, although allocated`, both));
  const lost = ordinalsWhere(placed, (index, ordinal) => index === null && !listed.has(ordinal));
  if (lost.length > 0) problems.push(found("free-lost", `${named(placed, lost)} neither allocated nor listed as free`, lost));
  return problems;
}

function ordinalsWhere({ block, size }: PlacedBlock, test: (index: number | null, ordinal: number) => boolean): readonly number[] {
  return block.allocations.slice(0, size).flatMap((index, ordinal) => (test(index, ordinal) ? [ordinal] : []));
}

function isOrdinal(ordinal: number, size: number): boolean {
  return Number.isInteger(ordinal) && ordinal >= 0 && ordinal < size;
}

function isInFuture(releasedAt: string | undefined, nowMs: number): boolean {
  return releasedAt !== undefined && Date.parse(releasedAt) > nowMs + CLOCK_SKEW_MS;
}

function named(placed: PlacedBlock, ordinals: readonly number[]): string {
  return `${enumerate(ordinals.map((ordinal) => textAt(placed, ordinal)))} ${ordinals.length === 1 ? "is" : "are"}`;
}

const NONE = new Reservations([]);

/** Returns the queue without what must not be in it. */
const sound = (block: Block): Block => ({ ...block, unallocated: freeOrdinals(block, NONE) });

/** Allocations always win: nothing here frees an address. */
const FIXES = {
  "block-length": withLength,
  "allocation-without-attribute": compacted,
  "attribute-unreferenced": compacted,
  "release-in-future": releasedNow,
  "free-out-of-range": sound,
  "free-duplicate": sound,
  "free-allocated": sound,
  "free-lost": withLost,
} as const satisfies Partial<Record<ProblemKind, (block: Block, nowMs: number) => Block>>;

type OneBlockKind = keyof typeof FIXES;

export function isOfOneBlock(kind: ProblemKind): kind is OneBlockKind {
  return kind in FIXES;
}

export async function mendBlock({ operation, problem, nowMs }: Repair, kind: OneBlockKind, cidr: string): Promise<RepairOutcome> {
  const { blocks } = operation.datastore;
  const stored = await blocks.get(cidr);
  const stands = stored !== undefined && blockProblems(stored, nowMs).some(({ id, isRepairable }) => id === problem.id && isRepairable);
  if (!stands) return GONE;
  await blocks.update(cidr, nextSequence(FIXES[kind](stored.value, nowMs), operation.clock.nowNs()), stored.revision);
  return MENDED;
}

function withLength(block: Block): Block {
  const size = placedBlock({ value: block, revision: "" })?.size ?? block.allocations.length;
  const missing = Array.from({ length: Math.max(size - block.allocations.length, 0) }, (_, place) => block.allocations.length + place);
  return {
    ...block,
    allocations: [...block.allocations.slice(0, size), ...missing.map(() => null)],
    unallocated: [...block.unallocated.filter((ordinal) => ordinal < size && !missing.includes(ordinal)), ...missing],
  };
}

function releasedNow(block: Block, nowMs: number): Block {
  const attributes = block.attributes.map((attribute) =>
    isInFuture(attribute.releasedAt, nowMs) ? { ...attribute, releasedAt: rfc3339(nowMs) } : attribute,
  );
  return { ...block, attributes };
}

function withLost(block: Block): Block {
  const { unallocated } = sound(block);
  const listed = new Set(unallocated);
  const lost = block.allocations.flatMap((index, ordinal) => (index === null && !listed.has(ordinal) ? [ordinal] : []));
  return { ...block, unallocated: [...unallocated, ...lost] };
}

export function poolProblems(blocks: readonly PlacedBlock[], pools: readonly PlacedPool[]): readonly Problem[] {
  return [
    ...blocks.flatMap((placed) => [...outsideOf(placed, pools), ...sizeProblem(placed, pools), ...abandoned(placed)]),
    ...pools.flatMap((pool) => otherSizesProblem(pool, blocks, pools)),
    ...overlaps(blocks, pools),
  ];
}

/** Finds the pools that could have made the block; more than one only where pools overlap. */
function poolsOf({ prefix }: PlacedBlock, pools: readonly PlacedPool[]): readonly PlacedPool[] {
  return pools.filter((pool) => covers(pool.prefix, prefix));
}

function outsideOf(placed: PlacedBlock, pools: readonly PlacedPool[]): readonly Problem[] {
  if (poolsOf(placed, pools).length > 0) return [];
  return [found("block-outside-pools", placed, "lies in no pool")];
}

/** Finds an empty block of another size, which can go; those with addresses are counted for their pool. */
function sizeProblem(placed: PlacedBlock, pools: readonly PlacedPool[]): readonly Problem[] {
  const holding = poolsOf(placed, pools);
  const [first] = holding;
  if (first === undefined || !isEmpty(placed.block) || holding.some(({ pool }) => pool.blockSize === placed.prefix.length)) return [];
  const { pool } = first;
  return [found("block-size", placed, `is a /${placed.prefix.length}, blocks of pool ${pool.name} (${pool.cidr}) are /${pool.blockSize}`)];
}

function otherSizesProblem({ pool }: PlacedPool, blocks: readonly PlacedBlock[], pools: readonly PlacedPool[]): readonly Problem[] {
  const inUse = blocks.filter((placed) => !isEmpty(placed.block) && poolsOf(placed, pools)[0]?.pool === pool);
  const message = otherSizes(
    pool,
    inUse.map(({ prefix }) => prefix),
  );
  if (message === undefined) return [];
  return [problem("pool-block-size", { object: `pool ${pool.name} (${pool.cidr})`, message, subject: { type: "place" } })];
}

/** Counts the blocks of a pool that have another size than its blocks should have: "blockSize is 26, but 2 of 3 blocks have another: 2 of /29". */
export function otherSizes({ blockSize }: Pick<IPPool, "blockSize">, blocks: readonly Prefix[]): string | undefined {
  const others = Map.groupBy(
    blocks.filter(({ length }) => length !== blockSize),
    ({ length }) => length,
  );
  if (others.size === 0) return undefined;
  const counts = [...others].sort(([a], [b]) => a - b).map(([length, { length: number }]) => `${number} of /${length}`);
  const all = [...others.values()].reduce((sum, { length }) => sum + length, 0);
  return `blockSize is ${blockSize}, but ${all} of ${count(blocks.length, "block")} have another: ${counts.join(", ")}; they go on serving, and no new block is made over them`;
}

/** Finds a block without an owner and without addresses, which stays behind when its last address leaves its cooldown (I§4.3). */
function abandoned(placed: PlacedBlock): readonly Problem[] {
  const { block } = placed;
  if (block.affinity !== undefined || !isEmpty(block)) return [];
  return [blockProblem("block-abandoned", block.cidr, "has neither owner nor addresses", { severity: "note" })];
}

/** Finds overlaps. Sorted blocks nest like brackets: every block that is still open contains the next one. */
function overlaps(sorted: readonly PlacedBlock[], pools: readonly PlacedPool[]): readonly Problem[] {
  const problems: Problem[] = [];
  let open: PlacedBlock[] = [];
  for (const inner of sorted) {
    open = open.filter((outer) => covers(outer.prefix, inner.prefix));
    for (const outer of open) problems.push(overlap(outer, inner, pools));
    open.push(inner);
  }
  return problems;
}

/** Reports the one that can go: empty, and of a size that no pool wants if there is a choice. */
function overlap(outer: PlacedBlock, inner: PlacedBlock, pools: readonly PlacedPool[]): Problem {
  const fits = (placed: PlacedBlock) => poolsOf(placed, pools).some(({ pool }) => pool.blockSize === placed.prefix.length);
  const candidates = [inner, outer].filter(({ block }) => isEmpty(block));
  const worst = candidates.find((placed) => !fits(placed)) ?? candidates[0] ?? inner;
  const other = worst === inner ? outer : inner;
  return found("blocks-overlap", worst, `overlaps with block ${formatPrefix(other.prefix)}: an address could be given twice`);
}

function found(kind: "block-outside-pools" | "block-size" | "blocks-overlap", { block }: PlacedBlock, message: string): Problem {
  return blockProblem(kind, block.cidr, message, { isRepairable: isEmpty(block) });
}

/** Removes a block that is empty and should not be, with its affinity. */
export async function removeBlock({ operation, problem }: Repair, cidr: string): Promise<RepairOutcome> {
  const { blocks } = operation.datastore;
  const listed = await operation.blocks();
  const all = await Promise.all(listed.map(async ({ value, revision }) => ({ value: await operation.cooled(value), revision })));
  const now = poolProblems(placedBlocks(all), placedPools(await operation.pools()));
  const block = all.find(({ value }) => value.cidr === cidr);
  if (block === undefined || !isEmpty(block.value) || !now.some(({ id, isRepairable }) => id === problem.id && isRepairable)) return GONE;

  const { affinity: owner, sequenceNumber } = block.value;
  const release = owner && { owner, cidr, mustBeEmpty: true, sequenceNumber };
  const isReleased = release !== undefined && (await releaseAffinity(operation, release));
  if (!isReleased) await blocks.delete(cidr, block.revision);
  return MENDED;
}
