/** What an agent says of a failed ADD on a real API server, with its own account: one event at the pod, whose count rises. */
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";

const cluster = shared(startCluster);

async function events(): Promise<readonly unknown[]> {
  const { body } = await cluster.api("GET", `/api/v1/namespaces/${NAMESPACE}/events`);
  const items = memberAt(body, "items");
  return Array.isArray(items) ? items : [];
}

it("tells of an ADD that fails by one event at the pod, with word and next step, and counts how often", async () => {
  await using world = await ApiServerNode.create(cluster);
  await using agent = await world.startAgent();
  const { metadata } = await world.pod("web", { node: world.name });
  const call = { pod: "web", conf: { ...agent.netconf, ipam: { type: "calico-ipam", ipv4_pools: ["nowhere"] } } };
  await until("an event", async () => {
    await world.refusal("ADD", call);
    return (await events()).length > 0;
  });
  await world.refusal("ADD", call);
  await until("a higher count", async () => Number(memberAt((await events())[0], "count")) > 1);
  expect(await events()).toEqual([
    expect.objectContaining({
      ...{ type: "Warning", reason: "NetworkAttachFailed" },
      message: expect.stringMatching(/nowhere.* \([a-z-]+\); next: /),
      source: { component: "tortie-node", host: world.name },
      involvedObject: expect.objectContaining({ kind: "Pod", name: "web", uid: metadata.uid }),
    }),
  ]);
  expect((await agent.request("GET", "/healthz")).text).not.toContain("may not create and patch events");
});
