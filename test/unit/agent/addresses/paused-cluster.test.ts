/** A paused datastore as agents see it: a barrier, which no copy may hide (A§11.7). */
import { cachedDatastore } from "../../../../agent/addresses/cached-datastore.ts";
import type { ClusterInformation } from "../../../../lib/datastore/resources.ts";
import { Cluster } from "../../../support/cluster.ts";

const READY = { name: "default", stored: { value: { datastoreReady: true }, revision: "1" }, isMarked: false };

async function pausedCluster(followedSince: number | undefined) {
  const cluster = await Cluster.create();
  const paused: ClusterInformation = { datastoreReady: false };
  await cluster.datastore.clusterInformation.create("default", paused);
  const clusterInformation = { isUsable: true, state: { followedSince }, get: () => READY, list: () => [READY] };
  return { cluster, store: cachedDatastore(cluster.observed, { clusterInformation }) };
}

describe("ClusterInformation", () => {
  it("G12: is asked of the server whenever its copy is not followed right now", async () => {
    const { cluster, store } = await pausedCluster(undefined);
    expect((await store.clusterInformation.get("default"))?.value).toEqual({ datastoreReady: false });
    expect(cluster.calls).toEqual(["get cluster-information default"]);
  });

  it("comes from a copy that is followed, without a request", async () => {
    const { cluster, store } = await pausedCluster(0);
    expect((await store.clusterInformation.get("default"))?.value).toEqual({ datastoreReady: true });
    expect(cluster.calls).toEqual([]);
  });
});
