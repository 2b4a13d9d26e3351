/** From the network configuration to an open datastore; each driver is loaded only when it is the one. */
import type { Environment } from "../cni/environment.ts";
import { chooseDatastore, unsupportedDatastore } from "../config/datastore-choice.ts";
import type { NetworkConfig } from "../config/network-config.ts";
import type { Datastore } from "./datastore.ts";

/**
 * Opens the datastore that the configuration and the environment choose (C§1.4); the local one is made at first use.
 *
 * @throws TortieError `netconf-value`, `datastore-unsupported`, `datastore-damaged`, `datastore-foreign`, `datastore-newer`
 * @throws DatastoreError `unavailable`
 */
export async function openDatastore(config: NetworkConfig, env: Environment): Promise<Datastore> {
  const type = chooseDatastore(config, env);
  if (type !== "local") throw unsupportedDatastore(type);
  const { openLocalDatastore } = await import("./local/local-datastore.ts");
  return openLocalDatastore(config.datastorePath);
}
