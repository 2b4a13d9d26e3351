/** Every promise of the datastore port, kept against a real API server in both groups, with no more rights than the plugins have. */
import { bothOf, describeDatastore } from "../../support/datastore-conformance.ts";
import { shared } from "../../support/fixtures.ts";
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const cluster = shared(startCluster);

for (const group of [LEGACY, V3] as const) {
  const open = async () => {
    await cluster.reset();
    const datastore = await openDatastoreOf(cluster, { group });
    const other = await openDatastoreOf(cluster, { group });
    return bothOf(datastore, other);
  };
  describeDatastore(`Kubernetes, ${group}`, open, { hasOwnEndpoints: false });
}
