/** `tortiectl doctor --cluster` at a real API server: each check finds what was broken, and is well again after what its next step says. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CheckResult, Report } from "../../../doctor/report.ts";
import { finding, WELL } from "../../support/doctor.ts";
import { shared } from "../../support/fixtures.ts";
import { agentAccess, calicoDefinitions, ownDefinitions } from "../../support/kubernetes/manifests.ts";
import { UNREAD_DEFINITION, UNREAD_PATH, unreadPolicyOf } from "../../support/kubernetes/resources.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

// Of its own, with one group: definitions and rights are taken away here, and nobody else's objects are judged.
const cluster = shared(() => startCluster({ groups: [LEGACY] }));

const AGENTS = "/apis/apps/v1/namespaces/kube-system/daemonsets";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LABELS = { "k8s-app": "tortie-node" };

async function ask(
  kubeconfig = cluster.adminKubeconfig,
  ...more: readonly string[]
): Promise<{ readonly exit: number; readonly report: Report }> {
  const program = Bun.spawn([join(BIN_DIR, "tortiectl"), "doctor", "--cluster", "--json", "--kubeconfig", kubeconfig, ...more], {
    env: { PATH: process.env.PATH ?? "" },
    stderr: "pipe",
  });
  const text = await new Response(program.stdout).text();
  if (!text.startsWith("{")) throw new Error(`${text}${await new Response(program.stderr).text()}`);
  return { exit: await program.exited, report: JSON.parse(text) };
}

async function says(check: string, kubeconfig?: string): Promise<readonly CheckResult[]> {
  return (await ask(kubeconfig)).report.results.filter((one) => one.check === check);
}

/** The API server hears of roles, definitions and the like a moment after they were stored. */
async function comesToSay(check: string, expected: "ok" | "failed" | "warning"): Promise<readonly CheckResult[]> {
  let found: readonly CheckResult[] = [];
  await until(`${check} ${expected}`, async () => {
    found = await says(check);
    return expected === "ok" ? found.every(({ status }) => status === "ok") : found.some(({ status }) => status === expected);
  });
  return found;
}

async function done(method: string, path: string, body?: unknown): Promise<void> {
  const { status, text } = await cluster.api(method, path, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
}

function agentSet(image = "tortie:1", args: readonly string[] = []): object {
  const spec = { containers: [{ name: "tortie-node", image, args }], serviceAccountName: "default" };
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "tortie-node", namespace: "kube-system", labels: LABELS },
    spec: { selector: { matchLabels: LABELS }, template: { metadata: { labels: LABELS }, spec } },
  };
}

/** The pod of an agent, as kubelet would report it. */
async function agentPod(node: string, isReady: boolean, image = "tortie:1"): Promise<void> {
  const name = `tortie-node-${node}`;
  const path = `/api/v1/namespaces/kube-system/pods/${name}`;
  await cluster.api("DELETE", `${path}?gracePeriodSeconds=0`);
  await until(`${name} is gone`, async () => (await cluster.api("GET", path)).status === 404);
  await done("POST", "/api/v1/namespaces/kube-system/pods", {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "kube-system", labels: LABELS },
    spec: { nodeName: node, hostNetwork: true, containers: [{ name: "tortie-node", image }] },
  });
  const conditions = [
    { type: "Ready", status: isReady ? "True" : "False", reason: "ContainersNotReady", message: "it waits for its Node" },
  ];
  await done("PATCH", `${path}/status`, { status: { phase: "Running", conditions } });
}

async function nodeStatus(node: string, ...conditions: readonly object[]): Promise<void> {
  await done("PATCH", `/api/v1/nodes/${node}/status`, { status: { conditions } });
}

const READY = { type: "Ready", status: "True", reason: "KubeletReady" };

async function lease(renewed: Date, holder = "controller-a"): Promise<void> {
  await cluster.api("DELETE", `${LEASES}/tortie-controller`);
  const spec = {
    holderIdentity: holder,
    leaseDurationSeconds: 15,
    renewTime: renewed.toISOString().replace("Z", "000Z"),
    leaseTransitions: 1,
  };
  await done("POST", LEASES, { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "tortie-controller" }, spec });
}

beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
  await cluster.createPool("pods", { cidr: "10.90.0.0/24" });
  for (const node of ["n1", "n2"]) {
    await cluster.createNode(node);
    await nodeStatus(node, READY);
  }
});

afterEach(async () => {
  await cluster.api("DELETE", `${AGENTS}/tortie-node`);
  await cluster.api("DELETE", `${LEASES}/tortie-controller`);
});

it("finds nothing wrong in a cluster that is well, and only reads", async () => {
  await done("POST", AGENTS, agentSet());
  for (const node of ["n1", "n2"]) await agentPod(node, true);
  await lease(new Date());
  const before = await cluster.mark();

  const { exit, report } = await ask();

  expect(report.results.filter(({ status }) => status === "failed" || status === "warning")).toEqual([]);
  expect(exit).toBe(0);
  const asked = await cluster.requests(before);
  // A review is a question; the server stores nothing of it.
  expect(asked.filter(({ verb, uri }) => !["get", "list"].includes(verb) && !uri.endsWith("/subjectaccessreviews"))).toEqual([]);
});

it("an account without rights is told what it may not see, and nothing fails for that", async () => {
  const { exit, report } = await ask(await cluster.kubeconfigFor("stranger"));
  const refused = report.results.filter(({ status }) => status === "skipped");
  expect(refused.map(({ message }) => message)).toEqual(
    expect.arrayContaining([expect.stringMatching(/user "\S+" of \S+ has no right to it/)]),
  );
  expect(report.results.filter(({ status, check }) => status === "failed" && check !== "definitions")).toEqual([]);
  expect(exit).toBe(0);
});

it("without a kubeconfig, and with a server that is not there, it says so at once", async () => {
  expect(await ask(join(cluster.dir, "nowhere"))).toMatchObject({ exit: 1, report: { error: { word: "kubeconfig-unreadable" } } });
  const nobody = await cluster.kubeconfigFor("admin", "https://127.0.0.1:1");
  const { exit, report } = await ask(nobody);
  expect(exit).toBe(1);
  expect(report.results[0]).toMatchObject({
    check: "api-server",
    status: "failed",
    word: "datastore-unavailable",
    next: expect.any(String),
  });
  expect(new Set(report.results.slice(1).map(({ status }) => status))).toEqual(new Set(["skipped"]));
});

it("api-server and credentials: a token that the server does not know, and one that ended", async () => {
  const good = await cluster.kubeconfigFor("admin");
  const payload = Buffer.from(JSON.stringify({ exp: Math.floor(Date.now() / 1000) - 60 })).toString("base64url");
  const text = (await Bun.file(good).text()).replace(/(token"?: "?)[\w.-]+/, `$1e30.${payload}.c2ln`);
  const bad = join(cluster.dir, "ended.kubeconfig");
  writeFileSync(bad, text);
  expect(await says("api-server", bad)).toEqual([expect.objectContaining({ status: "failed", word: "datastore-unauthorized" })]);
  expect(await says("api-server", good)).toEqual(WELL);
  expect(await says("credentials", good)).toEqual(WELL);
  rmSync(bad);
});

it("credentials: a token that the server has given for some minutes, and a longer one", async () => {
  const good = await cluster.kubeconfigFor("admin");
  const token = await cluster.tokenFor("admin", 600);
  const soon = join(cluster.dir, "soon.kubeconfig");
  writeFileSync(soon, (await Bun.file(good).text()).replace(/(token"?: "?)[\w.-]+/, `$1${token}`));
  expect(await says("credentials", soon)).toEqual(finding("warning", /nobody has renewed them yet/));
  expect(await says("credentials", good)).toEqual(WELL);
  rmSync(soon);
});

it("clock: a server that says another time, until it says this machine's", async () => {
  await using proxy = await cluster.proxy();
  const kubeconfig = await proxy.kubeconfigFor("admin");
  const date = new Date(Date.now() - 120_000).toUTCString();
  proxy.on({ path: "/version", times: Number.POSITIVE_INFINITY }, { kind: "answer", status: 200, headers: { date } });
  expect(await says("clock", kubeconfig)).toEqual(finding("failed", /1[12]\d s ahead of the API server's/, /timedatectl set-ntp true/));
  proxy.clear();
  expect(await says("clock", kubeconfig)).toEqual(WELL);
  expect(await says("clock")).toEqual(WELL);
});

it("definitions: kinds that are not defined, until they are applied", async () => {
  const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  await done("DELETE", `${path}/ipamhandles.${LEGACY.split("/")[0]}`);
  await done("DELETE", `${path}/tortieendpoints.tortie.dev`);
  const found = await comesToSay("definitions", "failed");
  await comesToSay("definitions", "warning");
  expect(found.find(({ status }) => status === "failed")).toMatchObject({
    message: "it lacks ipamhandles",
    next: "apply manifests/crds/crd.projectcalico.org",
  });
  for (const definition of [...calicoDefinitions(LEGACY), ...ownDefinitions()]) await cluster.apply(definition);
  await comesToSay("definitions", "ok");
});

it("cluster-information: none, and one that is paused", async () => {
  await cluster.remove(LEGACY, "clusterinformations", "default");
  expect(await says("cluster-information")).toEqual(finding("failed", /there is none: every ADD waits for it/));
  await cluster.setReady(false);
  expect(await says("cluster-information")).toEqual(finding("failed", /datastoreReady is not true/, /set spec\.datastoreReady to true/));
  await cluster.setReady(true);
  expect(await says("cluster-information")).toEqual(WELL);
});

it("rights: a role that somebody has cut, until it is applied again", async () => {
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tortie-node";
  await done("PATCH", path, { rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["watch"] }] });
  const found = await comesToSay("rights", "failed");
  expect(found.find(({ status }) => status === "failed")).toMatchObject({
    object: "service account kube-system/tortie-node",
    message: expect.stringContaining("it may not patch pods/status, patch nodes/status, watch ippools"),
    next: expect.stringContaining("apply manifests/node/rbac.yaml"),
  });
  for (const object of agentAccess()) await cluster.apply(object);
  await comesToSay("rights", "ok");
});

it("controller-lease: one that nobody renews, one without a holder, and one that is held", async () => {
  expect(await says("controller-lease")).toEqual([expect.objectContaining({ status: "skipped" })]);
  await lease(new Date(Date.now() - 120_000));
  expect(await says("controller-lease")).toEqual(
    finding("failed", /controller-a has not renewed it for 1\d\d s/, /kubectl -n kube-system get pods -l k8s-app=tortie-controller/),
  );
  await lease(new Date(), "");
  expect(await says("controller-lease")).toEqual(finding("failed", /nobody leads/));
  await lease(new Date());
  expect(await says("controller-lease")).toEqual(WELL);
});

it("agents: a node without one, one that is not ready, and both as they should be", async () => {
  expect(await says("agents")).toEqual([expect.objectContaining({ status: "skipped" })]);
  await done("POST", AGENTS, agentSet());
  await agentPod("n1", false);
  const found = await says("agents");
  expect(found).toEqual([
    expect.objectContaining({
      object: "node n1",
      status: "failed",
      message: expect.stringContaining("ContainersNotReady: it waits for its Node"),
    }),
    expect.objectContaining({ object: "node n2", status: "failed", message: "no pod of the agent is there" }),
  ]);
  for (const node of ["n1", "n2"]) await agentPod(node, true);
  expect(await says("agents")).toEqual(WELL);
});

it("versions: an agent that a roll-out has not reached", async () => {
  await done("POST", AGENTS, agentSet("tortie:2"));
  await agentPod("n1", true, "tortie:2");
  await agentPod("n2", true, "tortie:1");
  expect(await says("versions")).toEqual(
    finding("warning", /wants tortie:2, and others run on n2 \(tortie:1\)/, /rollout status daemonset tortie-node/),
  );
  await agentPod("n2", true, "tortie:2");
  expect(await says("versions")).toEqual(WELL);
});

it("conditions: nodes that are not ready, or whose network is not available", async () => {
  await nodeStatus("n1", { type: "Ready", status: "False", reason: "KubeletNotReady", message: "cni plugin not initialized" });
  await nodeStatus("n2", READY, { type: "NetworkUnavailable", status: "True", reason: "NoRoute" });
  expect(await says("conditions")).toEqual([
    expect.objectContaining({ object: "node n1", status: "failed", next: expect.stringContaining("tortiectl doctor") }),
    expect.objectContaining({
      object: "node n2",
      status: "failed",
      message: "its network counts as unavailable: NoRoute",
      next: expect.stringContaining("whoever wrote the condition"),
    }),
  ]);
  await nodeStatus("n2", READY, { type: "NetworkUnavailable", status: "True", reason: "TortieIsDown", message: "the agent is not ready" });
  expect(await says("conditions")).toContainEqual(
    expect.objectContaining({
      message: "its network counts as unavailable: TortieIsDown: the agent is not ready",
      next: expect.stringContaining("the controller clears"),
    }),
  );
  await nodeStatus("n1", READY);
  await nodeStatus("n2", READY, { type: "NetworkUnavailable", status: "False" });
  expect(await says("conditions")).toEqual(WELL);
});

it("conditions: a taint alone, as a cloud's controller sets it, until it is taken away", async () => {
  const taint = (...taints: readonly object[]) => done("PATCH", "/api/v1/nodes/n1", { spec: { taints } });
  await taint({ key: "node.kubernetes.io/network-unavailable", effect: "NoSchedule" });
  const found = await says("conditions");
  expect(found).toEqual(finding("failed", /counts as unavailable \(taint node\.kubernetes\.io\/network-unavailable\)/, /whoever wrote/));
  expect(found[0]?.object).toBe("node n1");
  await taint();
  expect(await says("conditions")).toEqual(WELL);
});

it("ranges: one that two nodes have, and a pool that holds a node's address", async () => {
  await cluster.createNode("n3", {}, { podCIDRs: ["10.91.0.0/24"], podCIDR: "10.91.0.0/24" });
  await cluster.createNode("n4", {}, { podCIDRs: ["10.91.0.128/25"], podCIDR: "10.91.0.128/25" });
  await done("PATCH", "/api/v1/nodes/n1/status", { status: { addresses: [{ type: "InternalIP", address: "10.90.0.7" }] } });
  expect(await says("ranges")).toEqual([
    expect.objectContaining({
      object: "node n4",
      status: "failed",
      message: expect.stringContaining("10.91.0.128/25 is a part of 10.91.0.0/24 of node n3"),
    }),
    expect.objectContaining({ object: "node n1", status: "failed", message: "its address 10.90.0.7 is in pool pods: a pod may get it" }),
  ]);
  await cluster.remove("v1", "nodes", "n4");
  await cluster.remove(LEGACY, "ippools", "pods");
  await cluster.createPool("others", { cidr: "10.92.0.0/24" });
  expect(await says("ranges")).toEqual(WELL);
});

it("tunnels: a node without its end, and two with the same", async () => {
  const pool = `/apis/${LEGACY}/ippools/pods`;
  await done("PATCH", pool, { spec: { vxlanMode: "Always" } });
  const annotate = (node: string, address: string | null) =>
    done("PATCH", `/api/v1/nodes/${node}`, { metadata: { annotations: { "projectcalico.org/IPv4VXLANTunnelAddr": address } } });
  await annotate("n1", "10.90.0.1");
  expect(await says("tunnels")).toEqual(
    finding("failed", /pool pods asks for VXLAN, and 1 node has no end of it: n2/, /--node-routes vxlan/),
  );
  await annotate("n2", "10.90.0.1");
  expect(await says("tunnels")).toEqual(
    finding("failed", /its tunnel address 10\.90\.0\.1 is that of node n1 too/, /kubectl annotate node n2/),
  );
  await annotate("n2", "10.90.0.2");
  expect(await says("tunnels")).toEqual(WELL);
});

it("cluster-pools: none, and one that is disabled", async () => {
  await done("PATCH", `/apis/${LEGACY}/ippools/pods`, { spec: { disabled: true } });
  expect(await says("cluster-pools")).toEqual(finding("failed", /all are disabled or going/, /enable one/));
  await done("PATCH", `/apis/${LEGACY}/ippools/pods`, { spec: { disabled: false } });
  expect(await says("cluster-pools")).toEqual(WELL);
});

it("cluster-ipam: a handle that no block knows, until it was repaired", async () => {
  await cluster.apply({
    apiVersion: LEGACY,
    kind: "IPAMHandle",
    metadata: { name: "lost" },
    spec: { handleID: "lost", block: { "10.90.0.0/26": 1 }, deleted: false },
  });
  const found = await says("cluster-ipam");
  expect(found).toEqual([expect.objectContaining({ status: "failed", word: "handle-orphan", next: expect.stringContaining("--repair") })]);
  const repair = Bun.spawn([join(BIN_DIR, "tortiectl"), "ipam", "check", "--repair", "--kubeconfig", cluster.adminKubeconfig], { env: {} });
  expect(await repair.exited).toBe(0);
  expect(await says("cluster-ipam")).toEqual(WELL);
});

it("endpoints: one that is not ready, and one of a node that is gone", async () => {
  const path = "/apis/tortie.dev/v1alpha1/namespaces/default/tortieendpoints";
  const endpoint = (name: string, node: string) =>
    done("POST", path, { apiVersion: "tortie.dev/v1alpha1", kind: "TortieEndpoint", metadata: { name }, spec: { ...SPEC, node } });
  const state = (name: string, word: string) => done("PATCH", `${path}/${name}/status`, { status: { state: word } });
  await endpoint("web", "n1");
  await endpoint("old", "gone");
  await state("web", "not-ready");
  expect(await says("endpoints")).toEqual([
    expect.objectContaining({ object: "endpoint default/web", status: "failed", message: "on node n1 it is not-ready" }),
    expect.objectContaining({
      object: "endpoint default/old",
      status: "warning",
      next: expect.stringContaining("kubectl -n default delete tortieendpoint old"),
    }),
  ]);
  await state("web", "ready");
  await done("DELETE", `${path}/old`);
  expect(await says("endpoints")).toEqual(WELL);
  await done("DELETE", `${path}/web`);
});

const SPEC = {
  id: 1,
  podUID: "u",
  containerID: "c",
  "external-identifiers": { "container-id": "c", "interface-name": "eth0", "k8s-namespace": "default", "k8s-pod-name": "web" },
  networking: { addressing: [] },
  addresses: [],
};

it("network-policies and unread-policies: objects that nobody enforces, until somebody does", async () => {
  await cluster.createPolicy("web", { podSelector: {} });
  expect(await says("network-policies")).toEqual([expect.objectContaining({ status: "failed", word: "policy-unenforced" })]);
  await done("POST", AGENTS, agentSet("tortie:1", ["--policy", "off"]));
  expect(await says("network-policies")).toEqual(finding("failed", /the agents run with --policy off/, /--policy auto/));
  await done("DELETE", `${AGENTS}/tortie-node`);
  await done("POST", AGENTS, agentSet());
  expect(await says("network-policies")).toEqual(WELL);
  expect(await says("unread-policies")).toEqual(WELL);
});

it("unread-policies: an object of a kind that nobody reads, until it is gone", async () => {
  await cluster.apply(UNREAD_DEFINITION);
  const deny = unreadPolicyOf("deny");
  await until("the kind", async () => (await cluster.api("POST", UNREAD_PATH, deny)).status === 201);
  expect(await says("unread-policies")).toEqual([
    expect.objectContaining({
      status: "failed",
      word: "policy-unread",
      message: expect.stringContaining("GlobalNetworkPolicy.crd.projectcalico.org (at least 1)"),
    }),
  ]);
  await done("DELETE", `${UNREAD_PATH}/deny`);
  expect(await says("unread-policies")).toEqual(WELL);
});
