import type { JsonObject } from "../../../lib/json/value.ts";
import { shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { createPolicyClusterNode } from "../../support/kubernetes/policy-cluster-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";
import { eventually } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

// Of its own: it takes a right away.
const cluster = shared(() => startCluster({ own: true }));

const ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tortie-node";
const REFUSED = "policy is not enforced: the API server answered 403 when it was asked for network policies";

interface Role {
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}

/** @returns what the role had before */
async function setRules(change: (rules: Role["rules"]) => Role["rules"]): Promise<Role["rules"]> {
  const role = (await cluster.api("GET", ROLE)).body as JsonObject & Role;
  expect((await cluster.api("PUT", ROLE, { ...role, rules: change(role.rules) })).status).toBe(200);
  return role.rules;
}

const isOfPolicies = ({ apiGroups }: Role["rules"][number]) => apiGroups.includes("networking.k8s.io");

it("A node whose agent may not list policies says so and attaches pods, and enforces without a restart when it is given the right", async () => {
  const whole = await setRules((rules) => rules.filter((rule) => !isOfPolicies(rule)));
  await using world = await createPolicyClusterNode(cluster, ["--max-controller-interval", "1"]);
  const { agent, api } = world;
  const status = async () => (await api.node.run([`${BIN_DIR}/tortiectl`, "node", "status", "--socket", agent.socket])).stdout;
  await cluster.createPolicy("web", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] }, NAMESPACE);

  await agent.until("the warning", async () => (await status()).includes(REFUSED));
  expect(await status()).toContain("next  policy: give the agent's account the rights of manifests/node/rbac.yaml, or set --policy off");
  expect(await status()).toContain("tortie-node is warning");
  expect(agent.log).toContain(`error ${REFUSED}`);
  const [web, client] = [await world.pod("web", { app: "web" }), await world.pod("client", { app: "client" })];
  expect(await reach(client, web, "tcp", 80)).toBe("ok");

  const { pid } = agent;
  await setRules(() => whole);
  expect(await eventually("timeout", () => reach(client, web, "tcp", 80), 30_000)).toBe("timeout");
  expect(await reach(web, client, "tcp", 80)).toBe("ok");
  expect(agent.pid).toBe(pid);
  await agent.until("the warning to go", async () => !(await status()).includes("policy is not enforced"));
  for (const { call } of [web, client]) await api.del(call);
});
