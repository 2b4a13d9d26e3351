/**
 * When a released address may be handed out again (I§3.8). The only place that puts ordinals back into the queue.
 */
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import { compacted } from "./attributes.ts";

/** `releasedAt` is stored in whole seconds, rounded down: the address may have been released up to so much later. */
const STORED_RESOLUTION_MS = 1000;

/** Whether the block has ordinals that wait: only then does the length of the cooldown matter. */
export function hasCooling(block: Block): boolean {
  return block.attributes.some((attribute) => attribute.releasedAt !== undefined);
}

/** The block with every ordinal set free whose cooldown is over, in ascending order, at the tail of the queue. */
export function normalise(block: Block, cooldownSeconds: number, nowMs: number): Block {
  const over = new Set<number>();
  for (const [index, attribute] of block.attributes.entries()) {
    if (isOver(attribute, cooldownSeconds, nowMs)) over.add(index);
  }
  if (over.size === 0) return block;
  const allocations = [...block.allocations];
  const unallocated = block.unallocated.filter((ordinal) => (allocations[ordinal] ?? null) === null);
  const sequenceNumberForAllocation = { ...block.sequenceNumberForAllocation };
  allocations.forEach((index, ordinal) => {
    if (index === null || !over.has(index)) return;
    allocations[ordinal] = null;
    unallocated.push(ordinal);
    delete sequenceNumberForAllocation[ordinal];
  });
  return compacted({ ...block, allocations, unallocated, sequenceNumberForAllocation });
}

/** A time that cannot be read is long ago: nobody could ever free the address otherwise. */
function isOver({ releasedAt }: AllocationAttribute, cooldownSeconds: number, nowMs: number): boolean {
  if (releasedAt === undefined) return false;
  const released = Date.parse(releasedAt);
  if (Number.isNaN(released)) return true;
  if (cooldownSeconds === 0) return released <= nowMs;
  return released + STORED_RESOLUTION_MS + cooldownSeconds * 1000 <= nowMs;
}
