/** Checks that alerts ask for, and that only an agent in a cluster has. */
import { readFileSync } from "node:fs";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
beforeAll(async () => {
  await cluster.reset();
  await cluster.setReady(true);
});

it("an agent that makes routes to other nodes says how they are, as the alert TortieRoutesInDoubt reads it", async () => {
  await using node = await ApiServerNode.create(cluster);
  await using agent = await node.startAgent(["--node-routes=vxlan"]);

  const { text } = await agent.request("GET", "/metrics");

  const [, asked = ""] =
    /alert: TortieRoutesInDoubt\n +expr: (tortie_check_state\{.*\}) > 0\n/.exec(readFileSync("manifests/monitoring/rules.yaml", "utf8")) ??
    [];
  expect(text).toMatch(new RegExp(`^${asked.replaceAll(/[{}]/g, "\\$&")} [012]$`, "m"));
});
