/** A real agent on a real API server: its objects, its sweep and its health, with the rights of its own account. */
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);

const objectOf = (pod: string) => cluster.get("tortie.dev/v1alpha1", "tortieendpoints", pod, NAMESPACE);

describe("A resident agent on an API server", () => {
  it("makes an object of a pod's endpoint, keeps it over its restart, and deletes it with the pod", async () => {
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"] });
    const pod = await node.pod("pod");
    await using agent = await node.startAgent(["--endpoint-objects"]);
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
    await using proxy = await cluster.proxy();
    await using node = await ApiServerNode.create(cluster, { via: proxy });
    await using agent = await node.startAgent();
    const health = async () => (await agent.request("GET", "/healthz")).text;
    await agent.until("the watches", async () => (await health()).includes("the API server is being heard of"));
    await proxy.refuse();
    await agent.until("the loss", async () => (await health()).includes("has not been heard of"));
    expect((await agent.request("GET", "/healthz")).json).toMatchObject({ live: true });
    await proxy.accept();
    await agent.until("the watches again", async () => (await health()).includes("the API server is being heard of"));
  });
});
