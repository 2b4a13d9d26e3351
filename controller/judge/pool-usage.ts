/** How full a pool is, and the condition that says so. */
import { placedBlocks } from "../../doctor/snapshot.ts";
import { isFree, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { covers, maskPrefix, parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block, IPPool } from "../../lib/datastore/resources.ts";
import { type Fields, text } from "../../lib/json/decode.ts";

export interface PoolUsage {
  /** One at least. */
  readonly size: bigint;
  /** Cooling down included. */
  readonly inUse: bigint;
}

/** @returns `undefined` for a pool whose CIDR cannot be read */
export function usageOf({ cidr }: Pick<IPPool, "cidr">, blocks: readonly Versioned<Block>[]): PoolUsage | undefined {
  const parsed = parsePrefix(cidr);
  if (parsed === undefined) return undefined;
  const pool = maskPrefix(parsed);
  const inside = placedBlocks(blocks).filter(({ prefix }) => covers(pool, prefix));
  const taken = inside.map(({ block }) => block.allocations.filter((_, ordinal) => !isFree(block, ordinal)).length);
  return { size: sizeOf(pool), inUse: BigInt(taken.reduce((sum, count) => sum + count, 0)) };
}

/** Blocks inside a pool's CIDR, by text that the datastore has made. */
export function isInside({ cidr }: Pick<IPPool, "cidr">, block: string): boolean {
  const parsed = parsePrefix(cidr);
  return parsed !== undefined && covers(maskPrefix(parsed), prefixOf(block));
}

/** Type of the condition; Calico's own conditions of a pool stay as they are. */
export const CONDITION = "tortie.dev/AddressesAvailable";

/** Per cent from which a pool counts as nearly full. */
const NEARLY_FULL = 90;
/** Per cent; a change that is smaller is not worth a write. */
const STEP = 10;

export interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: "Available" | "NearlyFull" | "Full";
  readonly message: string;
}

export function conditionOf({ size, inUse }: PoolUsage): Condition {
  const percent = Number((inUse * 100n) / size);
  const isFull = inUse >= size;
  const reason = isFull ? "Full" : percent >= NEARLY_FULL ? "NearlyFull" : "Available";
  const step = Math.floor(percent / STEP) * STEP;
  const message = isFull ? `all ${size} addresses are in use` : `${step} % or more of ${size} addresses are in use`;
  return { type: CONDITION, status: isFull ? "False" : "True", reason, message };
}

/** All conditions as they should be; `undefined` when they are so already. @param now RFC 3339 */
export function withCondition(conditions: readonly Fields[], wanted: Condition, now: string): readonly Fields[] | undefined {
  const before = conditions.find((condition) => text(condition, "type") === CONDITION);
  const isSame = before !== undefined && (["status", "reason", "message"] as const).every((member) => before[member] === wanted[member]);
  if (isSame) return undefined;
  const since = before !== undefined && before.status === wanted.status ? text(before, "lastTransitionTime") : "";
  const condition = { ...wanted, lastTransitionTime: since === "" ? now : since };
  return [...conditions.filter((other) => other !== before), condition];
}
