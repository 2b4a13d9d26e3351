/**
 * What an agent says of policy on a real API server, with its own account: events at pods and policies, and when the kernel holds what
 * somebody has just changed.
 */
import { shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { createPolicyClusterNode } from "../../support/kubernetes/policy-cluster-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { reach } from "../../support/policy-node.ts";

const cluster = shared(startCluster);

interface Event {
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid: string };
}

async function events(): Promise<readonly Event[]> {
  const { body } = await cluster.api("GET", `/api/v1/namespaces/${NAMESPACE}/events`);
  return (body as { readonly items: readonly Event[] }).items;
}

/** An agent with policy, and pods a and b of its node. */
async function start() {
  const world = await createPolicyClusterNode(cluster);
  const [a, b] = [await world.pod("a", { app: "a" }), await world.pod("b", { app: "b" })];
  return { ...world, knock: () => reach(a, b, "tcp", 8081) };
}

describe("An agent that enforces policy", () => {
  it("tells of drops by one event at the pod, however many there are", async () => {
    await using world = await start();
    await cluster.createPolicy("close", { podSelector: { matchLabels: { app: "b" } }, policyTypes: ["Ingress"] }, NAMESPACE);
    expect(await world.tortiectl("wait")).toMatchObject({ exit: 0, stderr: "" });
    for (let i = 0; i < 5; i++) await world.knock();
    await until("an event", async () => (await events()).length > 0);
    await world.knock();
    const uid = (await cluster.get("v1", "pods", "b", NAMESPACE))?.metadata.uid;
    expect(await events()).toEqual([
      expect.objectContaining({
        type: "Warning",
        reason: "NetworkPolicyDrop",
        message: expect.stringMatching(/^TCP port 8081 from test\/a \(10\.71\.0\.\d+\) was dropped: .*test\/close/),
        involvedObject: expect.objectContaining({ kind: "Pod", name: "b", uid }),
      }),
    ]);
    expect((await world.agent.request("GET", "/healthz")).text).not.toContain("may not create and patch events");
  });

  it("waits for what was changed a moment ago, and says when it is gone", async () => {
    await using world = await start();
    for (let round = 0; round < 5; round++) {
      await cluster.createPolicy("late", { podSelector: {}, policyTypes: ["Ingress"] }, NAMESPACE);
      expect(await world.tortiectl("wait")).toMatchObject({ exit: 0, stderr: "" });
      expect((await world.tortiectl("explain", "test/a", "test/b", "8081")).exit).toBe(1);
      expect(await world.tortiectl("wait", "--policy", "test/late")).toMatchObject({ exit: 0, stderr: "" });
      await cluster.remove("networking.k8s.io/v1", "networkpolicies", "late", NAMESPACE);
      expect(await world.tortiectl("wait")).toMatchObject({ exit: 0, stderr: "" });
      expect((await world.tortiectl("explain", "test/a", "test/b", "8081")).exit).toBe(0);
    }
    expect((await world.tortiectl("wait", "--policy", "test/late")).stderr).toContain("policy-unknown");
  });
});
