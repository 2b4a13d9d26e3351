/** The watches behind the copies, on etcd (A§11.7): own affinities, the own node, and what decides about addresses. */
import {
  AFFINITIES,
  affinityCodec,
  clusterInformationResource,
  configurationCodec,
  isAffinityKey,
  nodeResource,
  poolResource,
  reservationResource,
  resourcePrefix,
} from "../../lib/datastore/etcd/codecs.ts";
import { allBelow, EtcdFeed, type EtcdSource, etcdSelection, only } from "../../lib/datastore/etcd/etcd-feed.ts";
import type { Watches } from "../../lib/kubernetes/watch/informers.ts";
import type { Copies } from "./copies.ts";

export interface EtcdCopies extends Copies {
  /** Waits for the first complete list of each. */
  untilSynced(signal: AbortSignal): Promise<void>;
}

const POOLS = resourcePrefix("ippools");
const RESERVATIONS = resourcePrefix("ipreservations");

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
