/**
 * The etcd datastore of a process that lives on: watches keep copies of what decides about addresses, over connections of their own.
 * Where pods come from an API server, it is watched for them.
 */

import { EtcdClient } from "../../lib/datastore/etcd/etcd-client.ts";
import { openEtcdDatastore } from "../../lib/datastore/etcd/etcd-datastore.ts";
import { KeyValueStore } from "../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../lib/datastore/etcd/settings.ts";
import { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { Informers, Watches } from "../../lib/kubernetes/watch/informers.ts";
import { once } from "../../lib/system/waiting.ts";
import { tracedClient, tracedEtcd } from "../trace/traced-parts.ts";
import { CachedCore } from "./cached-core.ts";
import { type CachedDatastore, cachedDatastore } from "./cached-datastore.ts";
import { type CachedStoreInput, watchingConfig } from "./cached-kubernetes.ts";
import { watchEtcd } from "./etcd-copies.ts";
import { type CoreCopies, watchCore } from "./kubernetes-copies.ts";

export interface CachedEtcd extends CachedDatastore {
  /** Waits until every copy of what is in etcd is complete. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

/**
 * Does not wait for the copies: until they are complete etcd is asked. The first use of `core` begins to watch the API server.
 * @throws TortieError `netconf-value` when the configuration leads to no etcd
 */
export function openCachedEtcd(input: CachedStoreInput): CachedEtcd {
  const { config, env, nodeName, onDamaged, log, tracing } = input;
  const onProblem = (message: string) => log.error(message);
  const store = openEtcdDatastore(config, env, {
    onDamaged,
    around: tracedEtcd(tracing),
    wrapApi: (api) => tracedClient(api, tracing),
  });
  const client = new EtcdClient(resolveEtcdSettings(config.etcd, env));
  const watches = new Watches({ onProblem });
  const copies = watchEtcd(watches, { client, store: new KeyValueStore(client) }, nodeName);
  let cluster: WatchedCluster | undefined;
  const core = once(() => {
    const inner = store.core;
    if (inner === undefined) return undefined;
    cluster = watchCluster(input, onProblem);
    return new CachedCore(inner, cluster.copies);
  });
  // Assigned to, not spread: what is made at its first use must not be used here.
  return Object.assign(cachedDatastore(store, copies, core), {
    untilSynced: (signal: AbortSignal) => copies.untilSynced(signal),
    async [Symbol.asyncDispose]() {
      // A list that is under way would be repeated until its time is over.
      client.close();
      await watches[Symbol.asyncDispose]();
      await cluster?.[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  });
}

interface WatchedCluster extends AsyncDisposable {
  readonly copies: CoreCopies;
}

function watchCluster(input: CachedStoreInput, onProblem: (message: string) => void): WatchedCluster {
  const connection = new ApiConnection(watchingConfig(input));
  const informers = new Informers(connection, { onProblem });
  return {
    copies: watchCore(informers, input.nodeName),
    async [Symbol.asyncDispose]() {
      await informers[Symbol.asyncDispose]();
      connection.close();
    },
  };
}
