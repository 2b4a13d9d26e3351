/**
 * The condition NetworkUnavailable of nodes whose agent is away, on a real API server with the controller's own role. Pods of agents are
 * objects whose status the test writes, as kubelet would. The controller's minutes are the test's; the grace period is the default, 60 s.
 */
import { ControllerTerm } from "../../support/controller-term.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import type { AuditedRequest } from "../../support/kubernetes/audit.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const UP = { type: "NetworkUnavailable", status: "False", reason: "TortieIsUp" };
const DOWN = { type: "NetworkUnavailable", status: "True", reason: "TortieIsDown" };
const LABELS = { "k8s-app": "tortie-node" };

const cluster = shared(startCluster);
const proxy = fresh(() => cluster.proxy());
beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await agentSet();
  for (const node of ["node1", "node2"]) await addNode(node);
});

function condition(type: string, status: string, reason = type) {
  const now = new Date().toISOString();
  return { type, status, reason, message: "by the test", lastHeartbeatTime: now, lastTransitionTime: now };
}

async function addNode(name: string, labels: Readonly<Record<string, string>> = { "kubernetes.io/os": "linux" }): Promise<void> {
  await cluster.createNode(name, labels);
  await setConditions(name, condition("Ready", "True"));
}

/** Of the node, in place of all that it had. */
async function setConditions(node: string, ...conditions: readonly object[]): Promise<void> {
  await cluster.api("PATCH", `/api/v1/nodes/${node}/status`, { status: { conditions } });
}

/** The DaemonSet of manifests/node, as far as a node is chosen by it. */
function agentSet(nodeSelector: Readonly<Record<string, string>> = { "kubernetes.io/os": "linux" }) {
  return cluster.apply({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "tortie-node", namespace: "kube-system", labels: LABELS },
    spec: {
      selector: { matchLabels: LABELS },
      template: { metadata: { labels: LABELS }, spec: { nodeSelector, containers: [{ name: "a", image: "tortie" }] } },
    },
  });
}

/** A pod of the agent, Ready or not; made where there is none. */
async function agent(
  node: string,
  isReady: boolean,
  { namespace = "kube-system", serviceAccountName = "tortie-node" } = {},
): Promise<void> {
  const name = `tortie-node-${node}`;
  if ((await cluster.get("v1", "pods", name, namespace)) === undefined)
    await cluster.createPod(name, { namespace, node, labels: LABELS, serviceAccountName });
  const conditions = [condition("Ready", isReady ? "True" : "False")];
  await cluster.api("PATCH", `/api/v1/namespaces/${namespace}/pods/${name}/status`, { status: { conditions } });
}

const removeAgent = (node: string) => cluster.remove("v1", "pods", `tortie-node-${node}`, "kube-system");

async function conditionsOf(node: string): Promise<readonly { readonly type: string }[]> {
  const { conditions = [] } = ((await cluster.get("v1", "nodes", node))?.status ?? {}) as { conditions?: readonly { type: string }[] };
  return conditions;
}

async function network(node: string): Promise<object | undefined> {
  return (await conditionsOf(node)).find(({ type }) => type === "NetworkUnavailable");
}

async function seesAgent(controller: ControllerTerm, node: string, isReady: boolean | undefined): Promise<void> {
  await controller.sees(`the agent of ${node}`, (view) => view.pod("kube-system", `tortie-node-${node}`)?.isReady === isReady);
}

/** Requests of the controller, without watches, the lists that they begin with, and those of other duties. */
function ofDuty(requests: readonly AuditedRequest[]): readonly string[] {
  return requests
    .filter(({ user }) => user.endsWith(":tortie-controller"))
    .filter(
      ({ verb, uri }) => (verb !== "watch" && /daemonsets|labelSelector=k8s-app%3Dtortie-node/.test(uri)) || /nodes\/.*\/status/.test(uri),
    )
    .map(({ verb, uri }) => `${verb} ${uri.replace(/\?.*/, "").replace(/^.*?(nodes|pods|daemonsets)/, "$1")}`);
}

/** Agents of both nodes are Ready, and the nodes are marked so. */
async function served(controller: ControllerTerm): Promise<void> {
  for (const node of ["node1", "node2"]) await agent(node, true);
  for (const node of ["node1", "node2"]) await seesAgent(controller, node, true);
  await controller.minutes(1);
  expect(await network("node1")).toMatchObject(UP);
}

describe("a node whose agent", () => {
  it("is not Ready for more than the grace period gets the condition by one patch, and loses it when the agent is back", async () => {
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    const mark = await cluster.mark();
    await agent("node1", false);
    await seesAgent(controller, "node1", false);
    await controller.minutes(1);
    expect(await network("node1")).toMatchObject(UP);
    await controller.minutes(5);
    expect(await network("node1")).toMatchObject(DOWN);
    expect(await network("node2")).toMatchObject(UP);
    expect(controller.term.duties.agents.away).toEqual(["node1"]);
    expect(ofDuty(await cluster.requests(mark))).toEqual(["list pods", "patch nodes/node1/status"]);

    await agent("node1", true);
    await seesAgent(controller, "node1", true);
    await controller.minutes(1);
    expect(await network("node1")).toMatchObject(UP);
    expect(ofDuty(await cluster.requests(mark))).toEqual(["list pods", "patch nodes/node1/status", "patch nodes/node1/status"]);
    // Kubelet's own condition is untouched.
    expect((await conditionsOf("node1")).map(({ type }) => type).sort()).toEqual(["NetworkUnavailable", "Ready"]);
  });

  it("has lost its pod, which the DaemonSet wants, gets the condition too", async () => {
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    await removeAgent("node1");
    await seesAgent(controller, "node1", undefined);
    await controller.minutes(2);
    expect(await network("node1")).toMatchObject(DOWN);
  });

  it("is replaced by a roll-out within the grace period is not marked", async () => {
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    const mark = await cluster.mark();
    for (let time = 0; time < 4; time++) {
      await removeAgent("node1");
      await seesAgent(controller, "node1", undefined);
      await controller.seconds(20);
      await agent("node1", true);
      await seesAgent(controller, "node1", true);
      await controller.seconds(20);
    }
    expect(ofDuty(await cluster.requests(mark))).toEqual([]);
  });

  it("comes back at the last moment is not marked, whatever the watch shows", async () => {
    await using controller = await ControllerTerm.begin(proxy);
    await served(controller);
    proxy.on(
      { method: "GET", path: /daemonsets|spec\.nodeName%3Dnode1/, times: Infinity },
      { kind: "before", action: () => agent("node1", true) },
    );
    await agent("node1", false);
    await seesAgent(controller, "node1", false);
    await controller.minutes(2);
    expect(proxy.requests.some(({ path }) => path.includes("spec.nodeName%3Dnode1"))).toBe(true);
    expect(await network("node1")).toMatchObject(UP);
    expect(controller.term.duties.agents.away).toEqual([]);
  });

  it("has a kubelet that is silent itself is not marked", async () => {
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    await setConditions("node1", condition("Ready", "Unknown"), { ...condition("NetworkUnavailable", "False", "TortieIsUp") });
    await agent("node1", false);
    await seesAgent(controller, "node1", false);
    await controller.minutes(5);
    expect(await network("node1")).toMatchObject(UP);
  });
});

describe("a node without Tortie", () => {
  it("is left alone: one that never had an agent, and one where a tenant's pod says that it is the agent", async () => {
    await addNode("other");
    await cluster.createNamespace("tenant");
    await agent("other", true, { namespace: "tenant" });
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    await agent("other", true, { serviceAccountName: "default" });
    await controller.minutes(5);
    expect(await network("other")).toBeUndefined();
  });

  it.each([
    ["a cloud provider", "False", "RouteCreated"],
    ["a cloud provider that has no route", "True", "NoRouteCreated"],
  ])("keeps the condition of %s, with and without a ready agent", async (_, status, reason) => {
    await setConditions("node1", condition("Ready", "True"), condition("NetworkUnavailable", status, reason));
    await agent("node1", true);
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(1);
    expect(await network("node1")).toMatchObject({ status, reason });
    await removeAgent("node1");
    await seesAgent(controller, "node1", undefined);
    await controller.minutes(5);
    expect(await network("node1")).toMatchObject({ status, reason });
  });

  it("keeps Calico's condition while calico-node is in the cluster, and is freed of it afterwards", async () => {
    const calico = { type: "NetworkUnavailable", status: "True", reason: "CalicoIsDown" };
    await setConditions("node1", condition("Ready", "True"), condition("NetworkUnavailable", "True", "CalicoIsDown"));
    await cluster.createPod("calico-node-x", { namespace: "kube-system", node: "node2", labels: { "k8s-app": "calico-node" } });
    await agent("node1", true);
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(2);
    expect(await network("node1")).toMatchObject(calico);
    await cluster.remove("v1", "pods", "calico-node-x", "kube-system");
    await controller.sees("calico-node gone", (view) => view.pod("kube-system", "calico-node-x") === undefined);
    await controller.minutes(1);
    expect(await network("node1")).toMatchObject(UP);
  });

  it.each(["down", "up"])("loses our condition when no DaemonSet wants an agent there any more: it was %s", async (state) => {
    await using controller = await ControllerTerm.begin(cluster);
    await served(controller);
    if (state === "down") {
      await agent("node1", false);
      await seesAgent(controller, "node1", false);
      await controller.minutes(2);
      expect(await network("node1")).toMatchObject(DOWN);
    }
    await agentSet({ "tortie.dev/network": "yes" });
    await removeAgent("node1");
    await seesAgent(controller, "node1", undefined);
    await controller.minutes(2);
    expect(await network("node1")).toBeUndefined();
    expect(await network("node2")).toMatchObject(UP);
    await cluster.remove("apps/v1", "daemonsets", "tortie-node", "kube-system");
    await removeAgent("node2");
    await seesAgent(controller, "node2", undefined);
    await controller.minutes(2);
    expect(await network("node2")).toBeUndefined();
  });
});

describe("the controller", () => {
  it("that starts anew begins the grace period again, and finds what the one before has marked", async () => {
    {
      await using controller = await ControllerTerm.begin(cluster);
      await served(controller);
      await agent("node1", false);
      await seesAgent(controller, "node1", false);
      await controller.minutes(1);
    }
    await removeAgent("node2");
    await using controller = await ControllerTerm.begin(cluster);
    expect(await network("node1")).toMatchObject(UP);
    await controller.minutes(2);
    // It has never seen the agent of node2: the condition of the one before says that there was one.
    for (const node of ["node1", "node2"]) expect(await network(node)).toMatchObject(DOWN);
    await agent("node1", true);
    await seesAgent(controller, "node1", true);
    await controller.minutes(1);
    expect(await network("node1")).toMatchObject(UP);
  });

  it("whose watches end, or who gets no answer, marks nothing; afterwards the grace period begins anew", async () => {
    const limits = { least: 100, firstPause: 5, longestPause: 20, retryAfter: 20 };
    await using controller = await ControllerTerm.begin(proxy, {}, { limits });
    await served(controller);
    const mark = await cluster.mark();
    proxy.on({ path: /./, times: Infinity }, { kind: "answer", status: 503 });
    proxy.breakConnections();
    await agent("node1", false);
    await controller.minutes(10);
    expect(await network("node1")).toMatchObject(UP);
    expect(ofDuty(await cluster.requests(mark))).toEqual([]);
    proxy.clear();
    await controller.followed();
    await seesAgent(controller, "node1", false);
    for (let rounds = 0; rounds < 20 && (await network("node1")) !== undefined; rounds++) {
      await controller.minutes(1);
      if (JSON.stringify(await network("node1")).includes("TortieIsDown")) break;
    }
    expect(await network("node1")).toMatchObject(DOWN);
  });

  it("with --agent-grace=0 marks nothing, and takes away what was marked", async () => {
    {
      await using controller = await ControllerTerm.begin(cluster);
      await served(controller);
      await agent("node1", false);
      await seesAgent(controller, "node1", false);
      await controller.minutes(2);
    }
    await using controller = await ControllerTerm.begin(cluster, { "agent-grace": "0" });
    await controller.minutes(2);
    for (const node of ["node1", "node2"]) expect(await network(node)).toBeUndefined();
  });

  it("writes one patch a node when 50 nodes get their first agent, none during a roll-out, and one each when it fails everywhere", async () => {
    const nodes = Array.from({ length: 50 }, (_, index) => `many${index}`);
    await Promise.all(nodes.map((node) => addNode(node)));
    await Promise.all(nodes.map((node) => agent(node, true)));
    const patches = async (since: number) => ofDuty(await cluster.requests(since)).filter((line) => line.startsWith("patch")).length;
    const first = await cluster.mark();
    await using controller = await ControllerTerm.begin(cluster);
    await controller.minutes(2);
    expect(await patches(first)).toBe(50);

    const rollout = await cluster.mark();
    for (const node of nodes.slice(0, 10)) {
      await agent(node, false);
      await seesAgent(controller, node, false);
      await controller.seconds(15);
      await agent(node, true);
      await seesAgent(controller, node, true);
    }
    await controller.minutes(5);
    expect(ofDuty(await cluster.requests(rollout))).toEqual([]);

    const failure = await cluster.mark();
    await Promise.all(nodes.map((node) => agent(node, false)));
    for (const node of nodes) await seesAgent(controller, node, false);
    await controller.minutes(5);
    expect(await patches(failure)).toBe(50);
    expect(controller.term.duties.agents.away).toHaveLength(50);
  });
});
