/** Many operations of one process over one connection to a real API server. */
import { countAtOnce } from "../../support/datastore-at-once.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { openDatastoreOf } from "./open-datastore.ts";

describe("one Kubernetes datastore that serves 200 operations at once", () => {
  it("loses none", async () => {
    await using cluster = await startCluster();
    await cluster.reset();
    await using datastore = await openDatastoreOf(cluster, { group: LEGACY });
    await countAtOnce(datastore, 200);
  });
});
