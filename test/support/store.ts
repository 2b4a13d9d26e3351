/** What stands in a node's local datastore, read through the datastore port. */
import { addressAt, formatAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { Handle } from "../../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import type { Node } from "./node.ts";

export interface StoreView {
  /** Addresses that some handle holds, cooldown left out. */
  readonly allocated: readonly string[];
  readonly handles: readonly Handle[];
  readonly endpoints: readonly WorkloadEndpoint[];
}

export async function readStore(node: Node): Promise<StoreView> {
  const config = decodeNetworkConfig({ name: "net1", datastore_type: "local", datastore_path: node.datastorePath });
  await using store = await openDatastore(config, {});
  const allocated = (await store.blocks.list()).flatMap(({ value: block }) => {
    const prefix = parsePrefix(block.cidr);
    if (prefix === undefined) throw new Error(`block ${block.cidr} has no CIDR`);
    return block.allocations.flatMap((index, ordinal) =>
      index === null || block.attributes[index]?.releasedAt !== undefined ? [] : [formatAddress(addressAt(prefix, ordinal))],
    );
  });
  return {
    allocated,
    handles: (await store.handles.list()).map(({ value }) => value),
    endpoints: (await store.endpoints.list()).map(({ value }) => value),
  };
}

/** Nothing of any attachment: no link, no route, no address, no endpoint. */
export async function expectNothingLeft(node: Node): Promise<void> {
  await node.expectClean();
  expect(await readStore(node)).toEqual({ allocated: [], handles: [], endpoints: [] });
}
