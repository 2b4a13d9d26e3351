/** Reads the node's datastore through its port. */
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { Block, Handle } from "../../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import type { World } from "./world.ts";

export interface DemoStore {
  readonly blocks: readonly Block[];
  readonly handles: readonly Handle[];
  readonly endpoints: readonly WorkloadEndpoint[];
}

export async function readDemoStore(world: World): Promise<DemoStore> {
  const config = decodeNetworkConfig({ name: "pods", datastore_type: "local", datastore_path: world.node.datastorePath });
  await using store = await openDatastore(config, {});
  const [blocks, handles, endpoints] = [await store.blocks.list(), await store.handles.list(), await store.endpoints.list()];
  return {
    blocks: blocks.map(({ value }) => value),
    handles: handles.map(({ value }) => value),
    endpoints: endpoints.map(({ value }) => value),
  };
}
