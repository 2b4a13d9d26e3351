/**
 * Opens the datastore that a network configuration names. Each driver is loaded where it is the one.
 */
import type { Environment } from "../cni/protocol.ts";
import { chooseDatastore } from "../config/datastore-choice.ts";
import type { NetworkConfig } from "../config/decode.ts";
import type { Datastore } from "./datastore.ts";
import type { DatastoreError } from "./errors.ts";
import { loadSqlite } from "./local/sqlite.ts";

/**
 * Opens the datastore that the configuration and the environment choose (C§1.4); the local one is made at first use, the others
 * are reached at the first operation.
 *
 * @param onDamaged called with the error of each object that a list leaves out because it cannot be read, where a store does that
 * @throws TortieError `netconf-value`, `datastore-damaged`, `datastore-foreign`, `datastore-newer`, and what
 * `openApiClient` refuses
 * @throws DatastoreError `unavailable`
 */
export async function openDatastore(
  config: NetworkConfig,
  env: Environment,
  onDamaged?: (error: DatastoreError) => void,
): Promise<Datastore> {
  const type = chooseDatastore(config, env);
  if (type === "local") {
    await loadSqlite();
    const { openLocalDatastore } = await import("./local/local-datastore.ts");
    return openLocalDatastore(config.datastorePath);
  }
  if (type === "etcdv3") {
    const { openEtcdDatastore } = await import("./etcd/etcd-datastore.ts");
    return openEtcdDatastore(config, env, { onDamaged });
  }
  const { openKubernetesDatastore } = await import("./kubernetes/kubernetes-datastore.ts");
  return openKubernetesDatastore(config, env, onDamaged);
}
