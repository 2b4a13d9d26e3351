/** Policies of a real API server that nobody enforces: the agent says so, and is silent when they are gone, or where Felix is. */

import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";

// Of its own: tests beside this one would see its policies.
const cluster = shared(() => startCluster({ own: true }));

describe("Policies that nobody enforces", () => {
  it("are told by health and log until they are gone or Felix is there", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.69.0.0/24"] });
    await using agent = await world.startAgent(["--max-controller-interval", "1", "--policy", "off"]);
    const status = async () => (await world.node.run([`${BIN_DIR}/tortiectl`, "node", "status", "--socket", agent.socket])).stdout;
    const says = (text: string) => agent.until(text, async () => (await status()).includes(text));
    await says("there are none");

    for (const name of ["first", "second"]) await cluster.createPolicy(name, { podSelector: {} });
    await says("there are at least 2 NetworkPolicy objects, and nobody that Tortie knows of enforces them on this node");
    await says("next  network-policy: start the agent with --policy auto");
    expect(await status()).toContain("tortie-node is warning");

    await world.node.run(["nft", "add table ip filter; add chain ip filter cali-FORWARD"]);
    await says("Felix enforces them on this node");
    const since = await cluster.mark();
    await Bun.sleep(3_000);
    expect((await cluster.requests(since)).filter(({ uri }) => uri.includes("networkpolicies"))).toEqual([]);
    await world.node.run(["nft", "delete table ip filter"]);
    await says("there are at least 2 NetworkPolicy objects");

    for (const name of ["first", "second"]) await cluster.remove("networking.k8s.io/v1", "networkpolicies", name, "default");
    await says("there are none");
    expect(agent.log.match(/nobody that Tortie knows of/g)).toHaveLength(2);
  });

  it("are no matter of an agent that is told not to warn", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.69.0.0/24"] });
    await cluster.createPolicy("any", { podSelector: {} });
    const since = await cluster.mark();
    await using agent = await world.startAgent(["--policy", "off", "--policy-warning=false", "--max-controller-interval", "1"]);
    const { json } = await agent.request("GET", "/healthz");
    expect(json).toMatchObject({ checks: expect.not.arrayContaining([expect.objectContaining({ name: "network-policy" })]) });
    await agent.stop();
    expect((await cluster.requests(since)).filter(({ uri }) => uri.includes("networkpolicies"))).toEqual([]);
  });
});
