/** What a migration moves, in the order in which it is written: what others refer to comes first. */
import type { Datastore, Versioned } from "../lib/datastore/datastore.ts";
import type { IpamConfiguration } from "../lib/datastore/resources.ts";
import type { EndpointKey, WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { podEndpointKey } from "../lib/workload/endpoint.ts";
import {
  carriedAffinity,
  carriedBlock,
  carriedEndpoint,
  carriedPool,
  type KindOfObject,
  kindOfObject,
  recordOfEndpoint,
  type Sides,
} from "./stored-object.ts";

const pools = kindOfObject({
  name: "pools",
  collection: (store) => store.pools,
  list: (store) => store.pools.list(),
  keyOf: ({ name }) => name,
  idOf: String,
  carried: carriedPool,
});

const reservations = kindOfObject({
  name: "reservations",
  collection: (store) => store.reservations,
  list: (store) => store.reservations.list(),
  keyOf: ({ name }) => name,
  idOf: String,
  carried: (reservation) => reservation,
});

const configuration = kindOfObject<"default", IpamConfiguration>({
  name: "IPAM configuration",
  collection: (store) => store.ipamConfiguration,
  list: readConfiguration,
  keyOf: () => "default",
  idOf: String,
  carried: (value) => value,
});

const handles = kindOfObject({
  name: "handles",
  collection: (store) => store.handles,
  list: (store) => store.handles.list(),
  keyOf: ({ id }) => id,
  idOf: String,
  carried: (handle) => handle,
});

const blocks = kindOfObject({
  name: "blocks",
  collection: (store) => store.blocks,
  list: (store) => store.blocks.list(),
  keyOf: ({ cidr }) => cidr,
  idOf: String,
  carried: carriedBlock,
});

const affinities = kindOfObject({
  name: "affinities",
  collection: (store) => store.affinities,
  list: (store) => store.affinities.listAll(),
  keyOf: ({ owner, cidr }) => ({ owner, cidr }),
  idOf: ({ owner, cidr }) => `${cidr} of ${owner.type} ${owner.name}`,
  carried: carriedAffinity,
});

/** In Kubernetes an endpoint is its pod, which the migration can annotate and cannot make. */
const endpoints = kindOfObject<EndpointKey, WorkloadEndpoint>({
  name: "endpoints",
  collection: (store) => store.endpoints,
  list: (store) => store.endpoints.list(),
  keyOf: endpointKey,
  idOf: ({ namespace, name }) => `${namespace}/${name}`,
  carried: carriedEndpoint,
  compared: (endpoint, sides) => (hasPods(sides) ? recordOfEndpoint(endpoint) : endpoint),
  isVacant: ({ containerID, ipNetworks }, sides) => hasPods(sides) && (containerID === "" || ipNetworks.length === 0),
  needsPlace: ({ target }) => target.endpointsAre === "annotations",
  isExclusive: ({ target }) => target.endpointsAre === "objects",
});

/** Everything that decides about addresses, and who has them. */
export const KINDS: readonly KindOfObject[] = [pools, reservations, configuration, handles, blocks, affinities, endpoints];

function hasPods({ source, target }: Sides): boolean {
  return source.endpointsAre === "annotations" || target.endpointsAre === "annotations";
}

/** The endpoint of a pod may be called otherwise in a store of objects (C§2.1 step 13). */
function endpointKey({ namespace, name, node, orchestrator, pod }: WorkloadEndpoint, sides: Sides): EndpointKey {
  if (sides.target.endpointsAre !== "annotations" || orchestrator !== "k8s" || node === "" || pod === "") return { namespace, name };
  return podEndpointKey(node, { namespace, name: pod });
}

async function readConfiguration({ ipamConfiguration }: Datastore): Promise<readonly Versioned<IpamConfiguration>[]> {
  const found = await ipamConfiguration.get("default");
  return found === undefined ? [] : [found];
}
