/**
 * What is taken from one node is worth that node alone: the policy of manifests/policy on a real API server, with tokens of pods on two
 * nodes, and the installer's token of the plugins.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { shared } from "../../support/fixtures.ts";
import { Installation } from "../../support/installation.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { ownNodePolicy } from "../../support/kubernetes/manifests.ts";
import { pathOf } from "../../support/kubernetes/resources.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";

const ANNOTATION = { metadata: { annotations: { seen: "yes" } } };
const ENDPOINT_KIND = "tortie.dev/v1alpha1";

/** Of the agents' pods, by their nodes. */
const agents = new Map<string, string>();
const cluster = shared(() => startCluster({ own: true }));
beforeAll(async () => {
  for (const object of ownNodePolicy()) await cluster.apply(object);
  for (const node of ["good", "evil"]) {
    await cluster.createNode(node);
    await cluster.createPod(`agent-${node}`, { namespace: "kube-system", node, serviceAccountName: "tortie-node" });
    await cluster.createPod(`web-${node}`, { node });
    await cluster.apply(endpointOf(node));
    agents.set(node, await tokenOfPod(`agent-${node}`));
  }
  // The policy has effect a moment after it was stored.
  await until("the policy", async () => (await writesNode(agentOf("evil"), "good")).status === 403);
});

function agentOf(node: string): string {
  const token = agents.get(node);
  if (token === undefined) throw new Error(`no agent on ${node}`);
  return token;
}

/** As the kubelet mounts it into a pod of the agent. */
function tokenOfPod(name: string): Promise<string> {
  return cluster.tokenOf("tortie-node", { boundObjectRef: { kind: "Pod", apiVersion: "v1", name } });
}

function endpointOf(node: string, name = `web-${node}`) {
  return {
    apiVersion: ENDPOINT_KIND,
    kind: "TortieEndpoint",
    metadata: { name, namespace: "default" },
    spec: { id: 7, node, podUID: "u", containerID: "c", addresses: [] },
  };
}

const writesNode = (token: string, node: string) => cluster.apiAs(token, "PATCH", `${pathOf("v1", "nodes", node)}/status`, ANNOTATION);
const writesPod = (token: string, node: string) =>
  cluster.apiAs(token, "PATCH", `${pathOf("v1", "pods", `web-${node}`, "default")}/status`, ANNOTATION);
const endpointPath = (name?: string) => pathOf(ENDPOINT_KIND, "tortieendpoints", name, "default");

describe("a token of one node's agent", () => {
  it("S1: writes to its own Node and to no other", async () => {
    expect((await writesNode(agentOf("evil"), "evil")).status).toBe(200);
    const refused = await writesNode(agentOf("evil"), "good");
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("a token of node evil may write to no other Node");
    expect((await writesNode(agentOf("good"), "good")).status).toBe(200);
  });

  it("S1: announces addresses on pods of its own node and on no others", async () => {
    expect((await writesPod(agentOf("evil"), "evil")).status).toBe(200);
    expect((await writesPod(agentOf("evil"), "good")).status).toBe(403);
    expect((await writesPod(agentOf("good"), "good")).status).toBe(200);
  });

  it("S1: makes, changes and deletes TortieEndpoints of its own node and no others", async () => {
    const evil = agentOf("evil");
    const change = { spec: { id: 8 } };
    expect((await cluster.apiAs(evil, "POST", endpointPath(), endpointOf("evil", "mine"))).status).toBe(201);
    expect((await cluster.apiAs(evil, "PATCH", endpointPath("mine"), change)).status).toBe(200);
    expect((await cluster.apiAs(evil, "PATCH", `${endpointPath("mine")}/status`, { status: {} })).status).toBe(200);
    expect((await cluster.apiAs(evil, "DELETE", endpointPath("mine"))).status).toBe(200);

    expect((await cluster.apiAs(evil, "POST", endpointPath(), endpointOf("good", "forged"))).status).toBe(403);
    expect((await cluster.apiAs(evil, "PATCH", endpointPath("web-good"), change)).status).toBe(403);
    expect((await cluster.apiAs(evil, "PATCH", `${endpointPath("web-good")}/status`, { status: {} })).status).toBe(403);
    expect((await cluster.apiAs(evil, "DELETE", endpointPath("web-good"))).status).toBe(403);
    // Neither taken over nor given away.
    expect((await cluster.apiAs(evil, "PATCH", endpointPath("web-good"), { spec: { node: "evil" } })).status).toBe(403);
    expect((await cluster.apiAs(evil, "PATCH", endpointPath("web-evil"), { spec: { node: "good" } })).status).toBe(403);
    expect((await cluster.apiAs(agentOf("good"), "DELETE", endpointPath("web-good"))).status).toBe(200);
  });

  it("S5: has the plugins' tokens for its own node alone, and for a day at most", async () => {
    const path = "/api/v1/namespaces/kube-system/serviceaccounts/calico-cni-plugin/token";
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest" };
    const ask = async (spec: object) => (await cluster.apiAs(agentOf("evil"), "POST", path, { ...request, spec })).status;
    const bound = (name: string) => ({ boundObjectRef: { kind: "Node", apiVersion: "v1", name } });
    expect(await ask({ ...bound("evil"), expirationSeconds: 86_400 })).toBe(201);
    expect(await ask({ ...bound("evil"), expirationSeconds: 86_401 })).toBe(403);
    expect(await ask(bound("good"))).toBe(403);
    expect(await ask({})).toBe(403);
    expect(await ask({ boundObjectRef: { kind: "Pod", apiVersion: "v1", name: "agent-good" } })).toBe(403);
  });
});

describe("a token without a node", () => {
  it("S1: writes nothing as the agent, and as the plugins what their role says", async () => {
    const agent = await cluster.tokenOf("tortie-node");
    const refused = await writesNode(agent, "evil");
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.text).toContain("the token names no node");
    expect((await writesPod(agent, "evil")).status).toBeGreaterThanOrEqual(400);
    expect((await writesPod(await cluster.tokenOf("calico-cni-plugin"), "good")).status).toBe(200);
  });

  it("S1: is somebody else's business: administrators write as before", async () => {
    expect((await writesNode(await cluster.tokenFor("admin"), "good")).status).toBe(200);
  });
});

describe("the plugins' token of the installer", () => {
  it("S5: is bound to the node, announces addresses there alone, and ends with the Node object", async () => {
    using host = new Installation();
    await cluster.createNode("leaving");
    await cluster.createPod("agent-leaving", { namespace: "kube-system", node: "leaving", serviceAccountName: "tortie-node" });
    await cluster.createPod("web-leaving", { node: "leaving" });
    const agent = await tokenOfPod("agent-leaving");
    host.addServiceAccount(agent, readFileSync(cluster.caPath, "utf8"));

    const run = await host.install({ ...inCluster(), KUBERNETES_NODE_NAME: "leaving" });

    expect(run).toMatchObject({ exit: 0 });
    expect(run.log).not.toContain("not bound");
    const token = tokenIn(host);
    expect(memberAt(claimsOf(token), "kubernetes.io", "node", "name")).toBe("leaving");
    expect(Number(memberAt(claimsOf(token), "exp")) - Number(memberAt(claimsOf(token), "iat"))).toBe(86_400);
    expect((await writesPod(token, "leaving")).status).toBe(200);
    expect((await writesPod(token, "good")).status).toBe(403);
    await cluster.remove("v1", "nodes", "leaving");
    await until("the end of the token", async () => (await cluster.apiAs(token, "GET", "/api/v1/nodes/none")).status === 401);
  });

  it("S5: is not bound where the server cannot do it, and the log says so", async () => {
    using host = new Installation();
    host.addServiceAccount(await cluster.tokenFor("admin"), readFileSync(cluster.caPath, "utf8"));

    const run = await host.install({ ...inCluster(), KUBERNETES_NODE_NAME: "nobody" });

    expect(run).toMatchObject({ exit: 0, log: expect.stringContaining("the plugins' token is not bound to node nobody") });
    expect(memberAt(claimsOf(tokenIn(host)), "kubernetes.io", "node")).toBeUndefined();
  });
});

function inCluster(): Record<string, string> {
  return { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(cluster.port) };
}

function tokenIn(host: Installation): string {
  return /token: (\S+)/.exec(readFileSync(join(host.netDir, "calico-kubeconfig"), "utf8"))?.[1] ?? "";
}

function claimsOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}
