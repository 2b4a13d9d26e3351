/** From the network configuration to an open datastore. The local driver is part of the way of every ADD here; others will be loaded when they are the one. */
import type { Environment } from "../cni/environment.ts";
import { chooseDatastore, unsupportedDatastore } from "../config/datastore-choice.ts";
import type { NetworkConfig } from "../config/network-config.ts";
import type { Datastore } from "./datastore.ts";
import { openLocalDatastore } from "./local/local-datastore.ts";

/**
 * Opens the datastore that the configuration and the environment choose (C§1.4); the local one is made at first use.
 *
 * @throws TortieError `netconf-value`, `datastore-unsupported`, `datastore-damaged`, `datastore-foreign`, `datastore-newer`
 * @throws DatastoreError `unavailable`
 */
export async function openDatastore(config: NetworkConfig, env: Environment): Promise<Datastore> {
  const type = chooseDatastore(config, env);
  if (type !== "local") throw unsupportedDatastore(type);
  return openLocalDatastore(config.datastorePath);
}
