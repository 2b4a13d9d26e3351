/** Finds the block of the allocator that has an address, whatever sizes blocks have. Pure. */
import { type Address, bitsOf, type Prefix } from "../../../lib/addresses/address.ts";
import type { HeldBlock } from "./claims.ts";

export class HeldBlocks {
  readonly #byName = new Map<string, HeldBlock>();
  /** By family and length of their prefixes, then by what is left of their addresses. */
  readonly #bySize = new Map<string, { readonly size: Prefix; readonly blocks: Map<bigint, HeldBlock> }>();

  /** @returns the one of that name before */
  set(name: string, block: HeldBlock | undefined): HeldBlock | undefined {
    const before = this.#byName.get(name);
    if (before !== undefined) this.#sized(before.cidr).delete(networkOf(before.cidr, before.cidr.address));
    if (block === undefined) this.#byName.delete(name);
    else this.#byName.set(name, block);
    if (block !== undefined) this.#sized(block.cidr).set(networkOf(block.cidr, block.cidr.address), block);
    return before;
  }

  /** Finds the smallest, should damaged ones overlap. */
  of(address: Address): HeldBlock | undefined {
    let found: HeldBlock | undefined;
    for (const { size, blocks } of this.#bySize.values()) {
      if (size.address.family !== address.family || (found !== undefined && found.cidr.length > size.length)) continue;
      found = blocks.get(networkOf(size, address)) ?? found;
    }
    return found;
  }

  #sized(cidr: Prefix): Map<bigint, HeldBlock> {
    const key = `${cidr.address.family}/${cidr.length}`;
    return this.#bySize.getOrInsertComputed(key, () => ({ size: cidr, blocks: new Map() })).blocks;
  }
}

function networkOf({ length, address: { family } }: Prefix, { value }: Address): bigint {
  return value >> BigInt(bitsOf(family) - length);
}
