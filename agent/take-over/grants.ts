/** Reads who has which address from the blocks of the node's networks: one list a store, whatever the number of pods. */
import { type Allocation, allocationsOf, keyOf, placedBlocks } from "../../doctor/snapshot.ts";
import { type Address, addressAt } from "../../lib/addresses/address.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { BlockGrant, Evidence } from "./identify.ts";

/** @throws DatastoreError */
export async function readGrants(
  stores: readonly { readonly datastore: Pick<Datastore, "blocks">; readonly node: string }[],
): Promise<Evidence["grantOf"]> {
  const found = new Map<string, BlockGrant>();
  for (const { datastore, node } of stores) {
    for (const allocation of placedBlocks(await datastore.blocks.list()).flatMap(allocationsOf)) {
      const grant = grantOf(allocation, node);
      if (grant !== undefined) found.set(keyOf(addressAt(allocation.placed.prefix, allocation.ordinal)), grant);
    }
  }
  return (address: Address) => found.get(keyOf(address));
}

/** A handle is `<network>.<container>`, and no container id has a "." (I§2.5). */
function grantOf({ attribute }: Allocation, node: string): BlockGrant | undefined {
  const { handleId = "", activeOwner = {} } = attribute;
  const dot = handleId.lastIndexOf(".");
  if (dot <= 0 || (activeOwner.node ?? node) !== node) return undefined;
  const { namespace = "", pod = "" } = activeOwner;
  return {
    network: handleId.slice(0, dot),
    containerId: handleId.slice(dot + 1),
    pod: pod === "" ? undefined : `${namespace}/${pod}`,
  };
}
