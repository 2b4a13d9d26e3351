/** How full pools and blocks are: the figures behind `tortiectl ipam show`. */
import { addressAt, covers, formatPrefix, type Prefix, sizeOf } from "../../lib/addresses/address.ts";
import { isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { holderOf, isFree, prefixOf } from "./block.ts";
import type { Operation } from "./operation.ts";
import { usable } from "./pools.ts";
import type { Reservations } from "./reservations.ts";
import type { BlockUtilisation, PoolUtilisation, Utilisation } from "./types.ts";

interface BlockFigures {
  readonly figures: readonly BlockUtilisation[];
  readonly unreadable: readonly string[];
}

/** Pools by name, with the blocks that lie in each (a block of a nested pool counts for the outer one too, I§3.2). */
export async function utilisation(operation: Operation): Promise<readonly PoolUtilisation[]> {
  const [pools, blocks, reservations] = await Promise.all([operation.pools(), operation.blocks(), operation.reservations()]);
  return usable(pools).map(({ pool, prefix, cidr }) => {
    const inside = blocks.filter(({ value }) => covers(prefix, prefixOf(value.cidr)));
    const { figures, unreadable } = figuresOf(
      inside.map(({ value }) => value),
      reservations,
    );
    const inUse = sum(figures.map((block) => block.inUse));
    const both = sum(figures.map((block) => block.inUse + block.reserved + block.available - block.capacity));
    return { name: pool.name, ...totals(cidr, prefix, inUse, both, reservations), blocks: figures, unreadable };
  });
}

/** A block is decoded at first use: one that cannot be decoded is named, and its addresses count as free. */
function figuresOf(blocks: readonly Block[], reservations: Reservations): BlockFigures {
  const figures: BlockUtilisation[] = [];
  const unreadable: string[] = [];
  for (const block of blocks) {
    try {
      figures.push(blockFigures(block, reservations));
    } catch (error) {
      if (!isDatastoreFailure(error, "invalid")) throw error;
      unreadable.push(error.message);
    }
  }
  return { figures, unreadable };
}

function blockFigures(block: Block, reservations: Reservations): BlockUtilisation {
  const prefix = prefixOf(block.cidr);
  const { family } = prefix.address;
  const taken = block.allocations.flatMap((_, ordinal) => (isFree(block, ordinal) ? [] : [ordinal]));
  const both = taken.filter((ordinal) => reservations.reservedUntil(family, addressAt(prefix, ordinal).value) !== undefined).length;
  const holders = taken.map((ordinal) => holderOf(block, ordinal));
  return {
    ...totals(formatPrefix(prefix), prefix, BigInt(taken.length), BigInt(both), reservations),
    owner: block.affinity,
    borrowed: holders.filter((holder) => isBorrowed(block, holder?.activeOwner?.node)).length,
    coolingDown: holders.filter((holder) => holder === undefined).length,
  };
}

function isBorrowed({ affinity }: Block, node: string | undefined): boolean {
  return node !== undefined && !(affinity?.type === "host" && affinity.name === node);
}

/** @param both addresses that are in use and reserved */
function totals(cidr: string, prefix: Prefix, inUse: bigint, both: bigint, reservations: Reservations): Utilisation {
  const capacity = sizeOf(prefix);
  const reserved = reservations.countIn(prefix.address.family, prefix.address.value, capacity);
  return { cidr, capacity, inUse, reserved, available: capacity - inUse - reserved + both };
}

function sum(numbers: readonly bigint[]): bigint {
  return numbers.reduce((total, number) => total + number, 0n);
}
