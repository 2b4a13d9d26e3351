/** Which blocks an address may still come from. */
import type { BlockOwner, Datastore, Versioned } from "./datastore.ts";
import type { Block } from "./resources.ts";

/** Lists a free ordinal, or one in cooldown, which becomes free by the passing of time alone. */
export function hasRoom({ unallocated, attributes }: Pick<Block, "unallocated" | "attributes">): boolean {
  return unallocated.length > 0 || attributes.some(({ releasedAt }) => releasedAt !== undefined);
}

/** `Blocks.listWithRoom` for stores without an index of room: reads each block that the owner has an affinity for. */
export async function readBlocksWithRoom(
  { affinities, blocks }: Pick<Datastore, "affinities" | "blocks">,
  owner: BlockOwner,
  family: 4 | 6,
): Promise<readonly Versioned<Block>[]> {
  const found: Versioned<Block>[] = [];
  for (const { value } of await affinities.listByOwner(owner, family)) {
    const block = await blocks.get(value.cidr);
    const holder = block?.value.affinity;
    if (block !== undefined && holder?.type === owner.type && holder.name === owner.name && hasRoom(block.value)) found.push(block);
  }
  return found;
}
