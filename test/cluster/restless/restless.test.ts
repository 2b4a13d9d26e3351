/** The restless world of a node in a cluster (test/support/restless): addresses and records are in a real API server. */
import { startCluster, type TestCluster } from "../../support/kubernetes/cluster.ts";
import { EPISODES } from "../../support/restless/episodes.ts";
import { testRestless } from "../../support/restless/suite.ts";
import { CLUSTER_EPISODES } from "./episodes.ts";
import { ClusterWorld } from "./world.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
}, 120_000);
afterAll(() => cluster[Symbol.asyncDispose]());

describe("A restless node in a cluster", () => {
  testRestless({
    title: "restless in a cluster",
    episodes: [...EPISODES, ...CLUSTER_EPISODES],
    create: (random) => ClusterWorld.create(cluster, random),
    seconds: 140,
  });
});
