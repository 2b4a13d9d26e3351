/** Every promise of the datastore port, kept against a real API server in both groups, with no more rights than the plugins have. */
import { describeDatastore } from "../../support/datastore-conformance.ts";
import { LEGACY, startCluster, type TestCluster, V3 } from "../../support/kubernetes/cluster.ts";
import { openDatastoreOf } from "./open-datastore.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster[Symbol.asyncDispose]());

for (const group of [LEGACY, V3] as const) {
  const open = async () => {
    await cluster.reset();
    const datastore = await openDatastoreOf(cluster, { group });
    const other = await openDatastoreOf(cluster, { group });
    return {
      datastore,
      other,
      async [Symbol.asyncDispose]() {
        await datastore[Symbol.asyncDispose]();
        await other[Symbol.asyncDispose]();
      },
    };
  };
  describeDatastore(`Kubernetes, ${group}`, open, { hasOwnEndpoints: false });
}
