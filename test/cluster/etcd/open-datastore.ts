/** The etcd driver as the plugins open it: from a network configuration and an environment. */
import type { Environment } from "../../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import type { DatastoreError } from "../../../lib/datastore/errors.ts";
import { type EtcdDatastore, type EtcdOptions, etcdDatastore, openEtcdDatastore } from "../../../lib/datastore/etcd/etcd-datastore.ts";
import { resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";
import type { JsonObject } from "../../../lib/json/value.ts";

export function openDatastoreAt(
  endpoints: string,
  keys: JsonObject = {},
  env: Environment = {},
  onDamaged?: (error: DatastoreError) => void,
): EtcdDatastore {
  const config = decodeNetworkConfig({ name: "net1", datastore_type: "etcdv3", etcd_endpoints: endpoints, ...keys });
  return openEtcdDatastore(config, env, { onDamaged });
}

/** As the plugins open it, but with limits or services of the test's. */
export function openWith(endpoints: string, options: EtcdOptions, keys: JsonObject = {}, env: Environment = {}): EtcdDatastore {
  const { etcd } = decodeNetworkConfig({ name: "net1", etcd_endpoints: endpoints, ...keys });
  return etcdDatastore(resolveEtcdSettings(etcd, env), options);
}
