/** The blocks of a pool as numbers, and the order in which a host walks them (I§3.5). */
import { addressAt, bitsOf, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/datastore.ts";
import type { Context } from "./context.ts";
import type { UsablePool } from "./pools.ts";

/** How many blocks a pool has; none when its blocks are larger than itself. */
export function blockCount({ pool, prefix }: UsablePool): bigint {
  const bits = pool.blockSize - prefix.length;
  return bits < 0 ? 0n : 1n << BigInt(bits);
}

export function blockAt({ pool, prefix }: UsablePool, index: bigint): { readonly prefix: Prefix; readonly cidr: string } {
  const block = { address: addressAt(prefix, index << hostBits(pool.blockSize, prefix)), length: pool.blockSize };
  return { prefix: block, cidr: formatPrefix(block) };
}

/** Number of the block that begins at, or holds, an address value inside the pool. */
export function indexOf({ pool, prefix }: UsablePool, address: bigint): bigint {
  return (address - prefix.address.value) >> hostBits(pool.blockSize, prefix);
}

/**
 * Where the owner begins in a pool. Blocks of one address are an exception: everybody begins anywhere, because a host needs as many
 * of them as it has pods and would walk over all of its own each time.
 */
export async function startOf(context: Context, pool: UsablePool, owner: BlockOwner): Promise<bigint> {
  const count = blockCount(pool);
  if (count <= 1n) return 0n;
  if (pool.pool.blockSize === bitsOf(pool.prefix.address.family)) {
    return (count * BigInt(Math.floor(context.random() * 2 ** 32))) >> 32n;
  }
  const { startIndex } = await import("./start-index.ts");
  return startIndex(owner.name, count);
}

function hostBits(blockSize: number, prefix: Prefix): bigint {
  return BigInt(bitsOf(prefix.address.family) - blockSize);
}
