/** The restless world of a node in a cluster (test/support/restless): addresses and records are in a real API server. */
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BOOTS } from "../../support/restless/boots.ts";
import { EPISODES } from "../../support/restless/episodes.ts";
import { MISTAKEN } from "../../support/restless/mistaken.ts";
import { testRestless } from "../../support/restless/suite.ts";
import { CLUSTER_EPISODES } from "./episodes.ts";
import { ClusterWorld } from "./world.ts";

const cluster = shared(startCluster);

describe("A restless node in a cluster", () => {
  testRestless({
    title: "restless in a cluster",
    episodes: [...EPISODES, ...MISTAKEN, ...BOOTS, ...CLUSTER_EPISODES],
    create: (random) => ClusterWorld.create(cluster, random),
    seconds: 140,
  });
});
