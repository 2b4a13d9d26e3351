/** An agent whose account may not read network policies, and is then given the right: a real API server, a real agent, real pods. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "../../../lib/json/value.ts";
import { Agent } from "../../support/agent.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";
import { eventually, placeOf } from "../../support/policy-agent.ts";
import { Dialogue, type Place, reach } from "../../support/policy-node.ts";

// Of its own: it takes a right away.
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster({ own: true });
}, 120_000);
afterAll(() => cluster[Symbol.asyncDispose]());

const ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tortie-node";
const POLICIES = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies`;
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
  await using stack = new AsyncDisposableStack();
  const api = stack.use(await ApiServerNode.create(cluster));
  await api.pool("pool4", "10.71.0.0/24");
  await api.node.run(["/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
  // Proxy ARP answers for the pods' gateway where a route leads to it.
  for (const command of ["link add up0 type veth peer name up1", "link set up0 up", "link set up1 up", "route add default dev up0"]) {
    await api.node.ip(...command.split(" "));
  }
  const args = ["--datastore-type", "kubernetes", "--kubeconfig", await cluster.kubeconfigFor("agent"), "--max-controller-interval", "1"];
  const agent = stack.use(await Agent.start(api.node, { args }));
  const status = async () => (await api.node.run([`${BIN_DIR}/tortiectl`, "node", "status", "--socket", agent.socket])).stdout;
  const pod = async (name: string): Promise<Place & { readonly call: object }> => {
    await api.pod(name, { labels: { app: name } });
    const sandbox = await api.sandbox(name);
    const call = { pod: name, container: `c-${name}`, sandbox, conf: agent.netconf };
    const result = await api.add(call);
    const prober = stack.use(new Dialogue(api.node.commandLine(["/usr/bin/python3", "test/support/programs/prober.py"], {}, sandbox)));
    await prober.ask("serve", { protocol: "tcp", port: 80 });
    return { pod: sandbox, prober, call, ...placeOf({ interfaces: [...result.interfaces], ips: [...result.ips] }) };
  };
  const policy = { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] };
  const metadata = { name: "web", namespace: NAMESPACE };
  await cluster.api("POST", POLICIES, { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec: policy });

  await agent.until("the warning", async () => (await status()).includes(REFUSED));
  expect(await status()).toContain("next  policy: give the agent's account the rights of manifests/node/rbac.yaml, or set --policy off");
  expect(await status()).toContain("tortie-node is warning");
  expect(agent.log).toContain(`error ${REFUSED}`);
  const [web, client] = [await pod("web"), await pod("client")];
  expect(await reach(client, web, "tcp", 80)).toBe("ok");
  expect(existsSync(join(agent.runDir, "policy.json"))).toBe(false);

  const { pid } = agent;
  await setRules(() => whole);
  expect(await eventually("timeout", () => reach(client, web, "tcp", 80), 30_000)).toBe("timeout");
  expect(await reach(web, client, "tcp", 80)).toBe("ok");
  expect(agent.pid).toBe(pid);
  expect(existsSync(join(agent.runDir, "policy.json"))).toBe(true);
  await agent.until("the warning to go", async () => !(await status()).includes("policy is not enforced"));
  for (const { call } of [web, client]) await api.del(call);
}, 120_000);
