/** Mending what one block alone has wrong: pure changes of the block, written at the revision that was judged. */

import { compacted, freeOrdinals, isEmpty, nextSequence, rfc3339 } from "../../ipam-plugin/allocator/block.ts";
import { releaseAffinity } from "../../ipam-plugin/allocator/release-affinity.ts";
import { Reservations } from "../../ipam-plugin/allocator/reservations.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import type { ProblemKind } from "../problem.ts";
import { blockProblems, isInFuture } from "../rules/block-rules.ts";
import { poolProblems } from "../rules/pool-rules.ts";
import { placedBlock, placedBlocks, placedPools } from "../snapshot.ts";
import { GONE, MENDED, type Repair, type RepairOutcome } from "./repair-outcome.ts";

const NONE = new Reservations([]);

/** The queue without what must not be in it. */
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
