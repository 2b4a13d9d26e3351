/**
 * Opens the etcd datastore of a long-running process: watches keep copies of what decides about addresses (A§11.7), over connections of
 * their own. Watches the API server too where pods come from one.
 */

import {
  AFFINITIES,
  affinityCodec,
  clusterInformationResource,
  configurationCodec,
  isAffinityKey,
  nodeResource,
  poolResource,
  reservationResource,
} from "../../lib/datastore/etcd/codecs.ts";
import { EtcdClient } from "../../lib/datastore/etcd/etcd-client.ts";
import { openEtcdDatastore } from "../../lib/datastore/etcd/etcd-datastore.ts";
import { allBelow, EtcdFeed, type EtcdSource, etcdSelection, only } from "../../lib/datastore/etcd/etcd-feed.ts";
import { KeyValueStore } from "../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../lib/datastore/etcd/settings.ts";
import { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { Informers, Watches } from "../../lib/kubernetes/watch/informers.ts";
import { once } from "../../lib/system/waiting.ts";
import { tracedClient, tracedEtcd } from "../observe/tracing.ts";
import type { CoreCopies } from "./cached-datastore.ts";
import { CachedCore, type CachedDatastore, cachedDatastore } from "./cached-datastore.ts";
import { type CachedStoreInput, watchCore, watchingAccount } from "./cached-kubernetes.ts";
import type { Copies } from "./read-your-writes.ts";

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
  // Assigns instead of spreading, which would use what is made at its first use.
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
  const connection = new ApiConnection(watchingAccount(input).config);
  const informers = new Informers(connection, { onProblem });
  return {
    copies: watchCore(informers, input.nodeName),
    async [Symbol.asyncDispose]() {
      await informers[Symbol.asyncDispose]();
      connection.close();
    },
  };
}

export interface EtcdCopies extends Copies {
  /** Waits for the first complete list of each. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

const POOLS = poolResource.prefix;
const RESERVATIONS = reservationResource.prefix;

/** Begins the watches. */
export function watchEtcd(watches: Pick<Watches, "begin">, source: EtcdSource, nodeName: string): EtcdCopies {
  const owner = { type: "host", name: nodeName } as const;
  const own = `${AFFINITIES.host}${nodeName}/`;
  const [configuration, cluster, node] = [
    configurationCodec.keyOf("default"),
    clusterInformationResource.keyOf("default"),
    nodeResource.keyOf(nodeName),
  ];
  const copies = {
    pools: watches.begin(new EtcdFeed(etcdSelection(poolResource, POOLS, allBelow(POOLS)), source)),
    reservations: watches.begin(new EtcdFeed(etcdSelection(reservationResource, RESERVATIONS, allBelow(RESERVATIONS)), source)),
    configuration: watches.begin(new EtcdFeed(etcdSelection(configurationCodec, configuration, only(configuration, "default")), source)),
    // The heartbeat: one object, by which a cluster is paused.
    clusterInformation: watches.begin(
      new EtcdFeed({ ...etcdSelection(clusterInformationResource, cluster, only(cluster, "default")), isHeartbeat: true }, source),
    ),
    nodes: watches.begin(new EtcdFeed(etcdSelection(nodeResource, node, only(node, nodeName)), source)),
  };
  const affinityOf = (key: string) => (isAffinityKey(key) ? key.slice(own.length) : undefined);
  const affinities = watches.begin(new EtcdFeed(etcdSelection(affinityCodec, own, affinityOf), source));
  return {
    ...copies,
    affinities: { owner, copy: affinities },
    async untilSynced(signal) {
      await Promise.all([...Object.values(copies), affinities].map((cache) => cache.untilSynced(signal)));
    },
  };
}
