/** A real agent on a real API server: its objects, its sweep and its health, with the rights of its own account. */
import { Agent } from "../../support/agent.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);

async function startAgent(node: ApiServerNode): Promise<Agent> {
  const args = ["--datastore-type", "kubernetes", "--kubeconfig", await cluster.kubeconfigFor("agent"), "--endpoint-objects"];
  return Agent.start(node.node, { args });
}

const objectOf = (pod: string) => cluster.get("tortie.dev/v1alpha1", "tortieendpoints", pod, NAMESPACE);

describe("A resident agent on an API server", () => {
  it("makes an object of a pod's endpoint, keeps it over its restart, and deletes it with the pod", async () => {
    await using node = await ApiServerNode.create(cluster);
    await node.pool("pool4", "10.60.0.0/26");
    const pod = await node.pod("pod");
    await using agent = await startAgent(node);
    const conf = agent.netconf;
    const result = await node.add({ conf });

    await agent.until("the object", async () => (await objectOf("pod")) !== undefined);
    const object = await objectOf("pod");
    expect(object).toMatchObject({
      spec: { node: node.name, podUID: pod.metadata.uid, networking: { addressing: [{ ipv4: result.ips[0]?.address.split("/")[0] }] } },
      status: { state: "ready" },
    });
    await agent.kill();
    await agent.restart();
    await agent.until("the watches", async () =>
      (await agent.request("GET", "/healthz")).text.includes("the API server is being heard of"),
    );
    expect((await objectOf("pod"))?.metadata.uid).toBe(object?.metadata.uid);

    await node.del({ conf });
    await agent.until("the end of the object", async () => (await objectOf("pod")) === undefined);
  });

  it("is ready while it hears of the API server, and says in its document when it does not", async () => {
    await using node = await ApiServerNode.create(cluster);
    await using proxy = await cluster.proxy();
    await connectNode(node.node, proxy);
    const kubeconfig = await proxy.kubeconfigFor("agent");
    await using agent = await Agent.start(node.node, { args: ["--datastore-type", "kubernetes", "--kubeconfig", kubeconfig] });
    const health = async () => (await agent.request("GET", "/healthz")).text;
    await agent.until("the watches", async () => (await health()).includes("the API server is being heard of"));
    await proxy.refuse();
    await agent.until("the loss", async () => (await health()).includes("has not been heard of"));
    expect((await agent.request("GET", "/healthz")).json).toMatchObject({ live: true });
    await proxy.accept();
    await agent.until("the watches again", async () => (await health()).includes("the API server is being heard of"));
  });
});
