/**
 * Reads the endpoints of all nodes from etcd, where that is the datastore: which pod has which address, with the labels that it had at its
 * ADD. Only plugins write there, so what stands there is proven.
 */
import { parsePrefix } from "../../../lib/addresses/address.ts";
import type { KeyValue } from "../../../lib/datastore/etcd/answers.ts";
import { endpointResource, parseStored } from "../../../lib/datastore/etcd/codecs.ts";
import { allBelow, EtcdFeed, type EtcdSource } from "../../../lib/datastore/etcd/etcd-feed.ts";
import type { Watches } from "../../../lib/kubernetes/watch/informers.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { watchedPart } from "./api-objects.ts";
import type { RecordedPod } from "./claims.ts";
import type { SourcePart } from "./sources.ts";

interface EtcdEndpointsInput {
  readonly watches: Pick<Watches, "begin">;
  readonly source: EtcdSource;
}

export function etcdEndpoints({ watches, source }: EtcdEndpointsInput): SourcePart {
  const name = "workload endpoints";
  const { prefix } = endpointResource;
  const decode = (pair: KeyValue): RecordedPod => recordOf(parseStored(endpointResource, pair).value);
  const begin = () => watches.begin(new EtcdFeed({ name, prefix, nameOf: allBelow(prefix), decode }, source));
  return watchedPart(name, begin, ({ key, after }, { book }) => book.setRecord(`etcd ${key}`, after));
}

function recordOf({ orchestrator, namespace, pod, labels, ipNetworks }: WorkloadEndpoint): RecordedPod {
  return {
    pod: orchestrator === "k8s" && pod !== "" ? { namespace, name: pod, labels } : undefined,
    addresses: ipNetworks.flatMap((network) => parsePrefix(network)?.address ?? []),
  };
}
