/**
 * The overlay beside-calico in a cluster whose Calico the Tigera operator has installed, on a real API server: nothing of Calico's is
 * written, and the executables live with an account of their own.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { shared } from "../../support/fixtures.ts";
import { Installation } from "../../support/installation.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { memberAt } from "../../support/kubernetes/json.ts";
import { apiObjects } from "../../support/kubernetes/manifests.ts";
import { kindOf } from "../../support/kubernetes/resources.ts";
import { granted, usedBy } from "../../support/kubernetes/rights.ts";
import { type ApiObject, LEGACY, type StoredObject, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { CALICO_LIST, OPERATOR_NAMESPACES, OPERATOR_OBJECTS } from "./operator-objects.ts";

const ACCOUNT = "tortie-cni-plugin";
const OVERLAY = apiObjects(renderFolder(resolve("manifests/overlays/beside-calico")));

/** What the account may do and the life of one pod on a quiet node does not need. */
const ELSEWHERE = new Set([
  // Claims of two nodes at once, and blocks that are given up or looked for among all.
  "get blockaffinities",
  "delete blockaffinities",
  "list ipamblocks",
  "delete ipamblocks",
  // GC, and a handle of several addresses of which one stays.
  "list ipamhandles",
  "update ipamhandles",
  // The other group's kind.
  "get ipamconfigurations",
  // KubeVirt.
  "get virtualmachineinstances",
  "get virtualmachines",
]);

const cluster = shared(() => startCluster({ own: true, groups: [LEGACY] }));
// What the harness has for clusters of Calico's manifests is not there in one of its operator's.
beforeAll(async () => {
  await cluster.remove("rbac.authorization.k8s.io/v1", "clusterrolebindings", "calico-cni-plugin");
  await cluster.remove("v1", "serviceaccounts", "calico-cni-plugin", "kube-system");
});

async function stored(object: ApiObject): Promise<StoredObject | undefined> {
  return cluster.get(object.apiVersion, kindOf(object).plural, object.metadata.name, object.metadata.namespace);
}

/** What the overlay gives the container that installs, and the list of its ConfigMap. */
function installerEnvironment(): Readonly<Record<string, string>> {
  const agent = OVERLAY.find(({ kind }) => kind === "DaemonSet");
  const env = memberAt(agent, "spec", "template", "spec", "initContainers", "0", "env");
  if (!Array.isArray(env)) throw new Error("the container that installs has no environment");
  const given = env.flatMap(({ name, value }) => (typeof value === "string" && name !== "CNI_NETWORK_CONFIG_FILE" ? [[name, value]] : []));
  const list = memberAt(
    OVERLAY.find(({ kind }) => kind === "ConfigMap"),
    "data",
    "tortie.conflist",
  );
  return { ...Object.fromEntries(given), CNI_NETWORK_CONFIG: String(list) };
}

/** Of a pod of the agent on the node, as the kubelet mounts it. */
function agentToken(pod: string): Promise<string> {
  return cluster.tokenOf("tortie-node", { boundObjectRef: { kind: "Pod", apiVersion: "v1", name: pod } });
}

describe("beside a Calico that the Tigera operator has installed", () => {
  it("writes nothing of Calico's, neither objects nor files of the node, and serves pods by an account of its own", async () => {
    await using node = await ApiServerNode.create(cluster, { identity: "admin", pools: ["10.60.0.0/26"], pods: ["pod"] });
    for (const name of OPERATOR_NAMESPACES) await cluster.createNamespace(name);
    for (const object of OPERATOR_OBJECTS) await cluster.apply(object);
    const before = await Promise.all(OPERATOR_OBJECTS.map(stored));
    const programs = new Set(["DaemonSet", "Deployment", "ConfigMap", "CustomResourceDefinition"]);
    for (const object of OVERLAY.filter(({ kind }) => !programs.has(kind))) await cluster.apply(object);
    expect(await Promise.all(OPERATOR_OBJECTS.map(stored))).toEqual(before);
    expect(await cluster.get("v1", "serviceaccounts", "calico-cni-plugin", "kube-system")).toBeUndefined();

    await cluster.createPod("agent", { namespace: "kube-system", node: node.name, serviceAccountName: "tortie-node" });
    using host = new Installation();
    const calicos = { "10-calico.conflist": CALICO_LIST, "calico-kubeconfig": "# Calico's own\n" };
    for (const [name, text] of Object.entries(calicos)) writeFileSync(join(host.netDir, name), text);
    host.addServiceAccount(await agentToken("agent"), readFileSync(cluster.caPath, "utf8"));
    const address = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(cluster.port) };
    const run = await host.install({ ...installerEnvironment(), ...address, KUBERNETES_NODE_NAME: node.name });
    expect([run.exit, run.log]).toEqual([0, expect.not.stringContaining("warning")]);

    for (const [name, text] of Object.entries(calicos)) expect(readFileSync(join(host.netDir, name), "utf8")).toBe(text);
    const list = JSON.parse(host.conflist("05-tortie.conflist"));
    expect(list.plugins[0].kubernetes).toEqual({ kubeconfig: "/etc/cni/net.d/tortie-kubeconfig" });

    const kubeconfig = join(host.netDir, "tortie-kubeconfig");
    const token = /token: (\S+)/.exec(readFileSync(kubeconfig, "utf8"))?.[1] ?? "";
    const pools = `/apis/${LEGACY}/ippools`;
    await until("the role to have effect", async () => (await cluster.apiAs(token, "GET", pools)).status === 200);
    const since = await cluster.mark();
    const conf = { kubernetes: { kubeconfig } };
    await node.add({ conf });
    await node.del({ conf });
    const { used, refused } = await usedBy(cluster, ACCOUNT, since);
    expect(refused).toEqual([]);
    const rights = granted(OVERLAY.filter(({ metadata }) => metadata.name === ACCOUNT));
    expect(rights.size).toBeGreaterThan(0);
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    expect([...rights].filter((right) => !used.has(right) && !ELSEWHERE.has(right))).toEqual([]);
    expect([...(await usedBy(cluster, "calico-cni-plugin", since)).used]).toEqual([]);

    // Nobody but Tortie's installer makes tokens of this account: one without a node is a stolen right.
    const unbound = await cluster.tokenOf(ACCOUNT);
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/pod/status`;
    const patch = { metadata: { annotations: { seen: "yes" } } };
    const write = () => cluster.apiAs(unbound, "PATCH", path, patch);
    // The policy has effect a moment after it was stored.
    await until("the policy", async () => (await write()).status >= 400);
    expect((await write()).text).toContain("the token names no node");
  });
});
