/**
 * Reads the endpoints of all nodes from etcd, where that is the datastore: which pod has which address, with the labels that it had at its
 * ADD. Only plugins write there, so what stands there is proven.
 */
import { parsePrefix } from "../../../lib/addresses/address.ts";
import { endpointResource, parseStored } from "../../../lib/datastore/etcd/codecs.ts";
import { allBelow, EtcdFeed, type EtcdSource } from "../../../lib/datastore/etcd/etcd-feed.ts";
import type { Watches } from "../../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import type { RecordedPod } from "./addresses.ts";
import { gapOf } from "./api-objects.ts";
import type { SourcePart } from "./sources.ts";

interface EtcdEndpointsInput {
  readonly watches: Pick<Watches, "begin">;
  readonly source: EtcdSource;
}

export function etcdEndpoints({ watches, source }: EtcdEndpointsInput): SourcePart {
  const name = "workload endpoints";
  const { prefix } = endpointResource;
  let cache: ResourceCache<RecordedPod> | undefined;
  return {
    start({ book, changed }) {
      cache = watches.begin(
        new EtcdFeed<RecordedPod>(
          { name, prefix, nameOf: allBelow(prefix), decode: (pair) => recordOf(parseStored(endpointResource, pair).value) },
          source,
        ),
      );
      cache.onChange(({ key, after }) => {
        book.setRecord(`etcd ${key}`, after);
        changed();
      });
    },
    get gap() {
      return cache === undefined ? `${name} have not been read yet` : gapOf(cache);
    },
    get isComplete() {
      return cache?.state.isSynced === true;
    },
    caughtUp: async (signal) => cache?.caughtUp(signal),
    async [Symbol.asyncDispose]() {
      // The watch ends with its etcd.
    },
  };
}

function recordOf({ orchestrator, namespace, pod, labels, ipNetworks }: WorkloadEndpoint): RecordedPod {
  return {
    pod: orchestrator === "k8s" && pod !== "" ? { namespace, name: pod, labels } : undefined,
    addresses: ipNetworks.flatMap((network) => parsePrefix(network)?.address ?? []),
  };
}
