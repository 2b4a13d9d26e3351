/** What a test does to the blocks of an owner as a whole: the product claims and gives them up one by one. */

import { claimBlock } from "../../ipam-plugin/allocator/affinity.ts";
import type { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import { type Family, formatAddress } from "../../lib/addresses/address.ts";
import type { BlockOwner } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors/errors.ts";

/** Makes the owner's a block that need not exist yet; does nothing when another owner has it. */
export async function claim(allocator: Allocator, cidr: string, owner: BlockOwner): Promise<void> {
  await claimBlock(allocator.begin(), { owner, cidr, expectBlock: true });
}

/** Takes an address as an ADD or a tunnel of the node does. @returns the address */
export async function assignOne(
  allocator: Allocator,
  node: string,
  handle: string,
  attributes: Readonly<Record<string, string>>,
  family: Family = 4,
): Promise<string> {
  const use = attributes.type === undefined ? "Workload" : "Tunnel";
  const counts = { count4: family === 4 ? 1 : 0, count6: family === 6 ? 1 : 0 };
  const owner = { type: "host", name: node } as const;
  const { ipv4, ipv6 } = await allocator.autoAssign({ ...counts, handle, attributes, owner, use });
  const assigned = family === 4 ? ipv4 : ipv6;
  const address = assigned?.addresses[0]?.prefix.address;
  if (address === undefined) throw assigned?.error ?? new Error(`no address: ${assigned?.messages.join("; ")}`);
  return formatAddress(address);
}

/** Gives up every block of an owner; goes on after failures and throws the last. One that is another's by then is passed over. */
export async function giveUpBlocks(allocator: Allocator, owner: BlockOwner, options: { readonly mustBeEmpty: boolean }): Promise<void> {
  const operation = allocator.begin({ owner });
  let failure: unknown;
  for (const { value } of [...(await operation.affinities(4)), ...(await operation.affinities(6))]) {
    try {
      await allocator.releaseAffinity(value.cidr, owner, options, operation);
    } catch (error) {
      if (!(error instanceof TortieError && error.word === "block-claimed")) failure = error;
    }
  }
  if (failure !== undefined) throw failure;
}
