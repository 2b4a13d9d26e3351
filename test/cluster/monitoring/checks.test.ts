/** Checks that alerts ask for, and that only an agent in a cluster has. */
import { readFileSync } from "node:fs";
import { Agent } from "../../support/agent.ts";
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
  const kubeconfig = await cluster.kubeconfigFor("agent");
  const args = ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig, "--node-routes=vxlan"];
  await using agent = await Agent.start(node.node, { args });

  const { text } = await agent.request("GET", "/metrics");

  const [, asked = ""] =
    /alert: TortieRoutesInDoubt\n +expr: (tortie_check_state\{.*\}) > 0\n/.exec(readFileSync("manifests/monitoring/rules.yaml", "utf8")) ??
    [];
  expect(text).toMatch(new RegExp(`^${asked.replaceAll(/[{}]/g, "\\$&")} [012]$`, "m"));
});
