/**
 * Rights of the controller's account against the audit log of a real API server, over all of its duties: what it asks for is granted, and
 * what is granted is asked for, or stands here with its reason.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { ClusterAddresses, NAMESPACE } from "../../support/cluster-addresses.ts";
import { shared } from "../../support/fixtures.ts";
import { controllerAccess } from "../../support/kubernetes/manifests.ts";
import { granted, usedBy } from "../../support/kubernetes/rights.ts";
import { type CalicoGroup, LEGACY, startCluster, type TestCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR } from "../../support/node.ts";

/** What the controller may do and these duties do not need. */
const ELSEWHERE = new Set([
  // A virtual machine's addresses: KubeVirt is not in this cluster.
  "get virtualmachineinstances",
  "get virtualmachines",
  // A handle of several addresses of which one stays.
  "update ipamhandles",
  // An identity that another writer creates at the same moment, and one that nobody has used for a day.
  "get tortieidentities",
  "delete tortieidentities",
  // How long a released address is kept back: asked of a block in which one is.
  "get ipamconfigurations",
  "get ipamconfigs",
]);

describe.each<CalicoGroup>([LEGACY, V3])("the controller's account, with objects of %s", (group) => {
  const cluster = shared(() => startCluster({ groups: [group] }));
  const addresses = shared(() => ClusterAddresses.open(cluster, group));
  let controller: ChildProcess | undefined;
  afterAll(() => controller?.kill("SIGKILL"));

  it("has every right that its duties need, and needs what it has", async () => {
    await addresses.clear(["node1", "node2"]);
    await cluster.createPool("pool", { group, cidr: "10.60.0.0/24", blockSize: 29 });
    await addresses.addPod("node1", "ended");
    await cluster.api("PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/ended/status`, { status: { phase: "Succeeded" } });
    await addresses.take("node1", "gone");
    await addresses.take("node2", "leaked");
    await addresses.addPod("node2", "used");
    await cluster.apply({
      apiVersion: "tortie.dev/v1alpha1",
      kind: "TortieEndpoint",
      metadata: { name: "gone", namespace: NAMESPACE },
      spec: { id: 7, node: "node1", podUID: "u", containerID: "c", addresses: [] },
    });
    // A node that is ready and was marked, in a cluster that has no DaemonSet of agents any more.
    const conditions = [
      { type: "Ready", status: "True" },
      { type: "NetworkUnavailable", status: "False", reason: "TortieIsUp" },
    ];
    await cluster.api("PATCH", "/api/v1/nodes/node2/status", { status: { conditions } });
    const since = await cluster.mark();
    controller = await startController(cluster);
    const ended = once(controller, "exit");
    await until("the finalizer", async () => {
      const pool = await cluster.get(group, "ippools", "pool");
      return (pool?.metadata.finalizers ?? []).length > 0 && pool?.status !== undefined;
    });
    const conditionsOfNode = async () => JSON.stringify((await cluster.get("v1", "nodes", "node2"))?.status?.conditions);
    await until("the mark of the node to go", async () => !(await conditionsOfNode()).includes("TortieIsUp"));
    await cluster.remove("v1", "nodes", "node1");
    await until("the node's data to go", async () => (await addresses.of("node1")).affinities.length === 0);
    const endpoint = () => cluster.get("tortie.dev/v1alpha1", "tortieendpoints", "gone", NAMESPACE);
    await until("its endpoint object to go", async () => (await endpoint()) === undefined);
    const pod = async () => (await cluster.get("v1", "pods", "ended", NAMESPACE))?.metadata.annotations ?? {};
    await until("the ended pod's annotation to go", async () => !(await pod())["cni.projectcalico.org/podIP"]);
    await until("the leak to go", async () => (await addresses.of("node2")).addresses.length === 1);
    const identities = () => cluster.list("tortie.dev/v1alpha1", "tortieidentities");
    await until("the identity of the pod in use", async () => (await identities()).length > 0);
    const [identity] = await identities();
    const retired = { spec: { state: "retired", retiredAt: "2030-01-01T00:00:00Z" } };
    await cluster.api("PATCH", `/apis/tortie.dev/v1alpha1/tortieidentities/${identity?.metadata.name}`, retired);
    await until("its revival", async () => (await identities()).every(({ spec }) => spec?.state === "active"));
    await addresses.allocator.releaseByHandle("net1.used-c");
    await cluster.remove("v1", "pods", "used", NAMESPACE);
    await cluster.api("DELETE", `/apis/${group}/ippools/pool`);
    await until("the pool to go", async () => (await cluster.get(group, "ippools", "pool")) === undefined);
    // A watch is in the audit log when it ends.
    controller.kill("SIGTERM");
    expect((await ended)[0]).toBe(0);

    const { used, refused } = await usedBy(cluster, "tortie-controller", since);
    expect(refused).toEqual([]);
    const rights = granted(controllerAccess(), ofGroup(group));
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    expect([...rights].filter((right) => !used.has(right) && !ELSEWHERE.has(right))).toEqual([]);
  });
});

/** The rules of a cluster without the other one of Calico's groups. */
function ofGroup(group: CalicoGroup): RegExp {
  return group === V3 ? /^(?!crd\.projectcalico\.org)/ : /^(?!projectcalico\.org)/;
}

async function startController(cluster: TestCluster): Promise<ChildProcess> {
  const kubeconfig = await cluster.kubeconfigFor("controller");
  const graces = { "node-grace": "1", "leak-grace": "1", "agent-grace": "1" };
  const flags = { kubeconfig, "lease-duration": "3", "scan-interval": "1", "health-port": "0", ...graces };
  const args = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]);
  return spawn(join(BIN_DIR, "tortie-controller"), args, { env: {}, stdio: "ignore" });
}
