/** Pods with their endpoints in etcd, read from a real API server: both servers at once. */

import { startEtcd } from "../../support/etcd/etcd.ts";
import { type EtcdCall, EtcdNode } from "../../support/etcd/etcd-node.ts";
import { EtcdFaultProxy } from "../../support/etcd/fault-proxy.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";
import { type ApiObject, startCluster } from "../../support/kubernetes/test-cluster.ts";
import type { Pod } from "../../support/node.ts";

const ENDPOINT = "/calico/resources/v3/projectcalico.org/workloadendpoints/test/node1-k8s-web-eth0";

/** Of one DEL at an endpoint that others write; Calico makes 6 (C§6.2). */
const ATTEMPTS = 10;

const KUBEVIRT = "kubevirt.io/v1";

let kubeconfig: string;
const cluster = shared(startCluster);
const etcd = shared(startEtcd);
beforeAll(async () => {
  kubeconfig = await cluster.kubeconfigFor("cni");
});
beforeEach(async () => {
  await cluster.reset();
  await cluster.createNamespace("test");
});
const world = fresh(() => EtcdNode.create(etcd));
beforeEach(() => connectNode(world.node, cluster));

function call(command: string, pod: Pod | undefined, { keys, ...options }: EtcdCall = {}) {
  const args = "K8S_POD_NAME=web;K8S_POD_NAMESPACE=test;K8S_POD_INFRA_CONTAINER_ID=x";
  return world.call(command, pod, { args, keys: { policy: { type: "k8s" }, kubernetes: { kubeconfig }, ...keys }, ...options });
}

async function added(pod: Pod, options: EtcdCall = {}): Promise<void> {
  const { exit, stdout } = await call("ADD", pod, options);
  if (exit !== 0) throw new Error(stdout);
}

async function stored(): Promise<{ readonly metadata: Record<string, unknown>; readonly spec: Record<string, unknown> } | undefined> {
  const value = (await etcd.contents()).get(ENDPOINT);
  return value === undefined ? undefined : JSON.parse(value);
}

/** An object of the namespace that stays while it is being deleted. */
function kubevirt(kind: string, ownerReferences: readonly Readonly<Record<string, unknown>>[]) {
  return {
    apiVersion: KUBEVIRT,
    kind,
    metadata: { name: "vm", namespace: "test", finalizers: ["tortie.test/keep"], ownerReferences },
    spec: {},
  };
}

const uid = async (): Promise<unknown> => (await stored())?.metadata.uid;

describe("A pod with etcd as its datastore", () => {
  it("K2, K35, K36: has its labels, service account, profiles, ports and generated name in etcd, and no annotation", async () => {
    const ports = [{ name: "anamedport", containerPort: 555 }];
    await cluster.createPod("web", {
      namespace: "test",
      serviceAccountName: "sa1",
      ports,
      generateName: "we",
      labels: { app: "shop" },
    });
    const sandbox = await world.node.addPod();
    await added(sandbox);
    expect(await stored()).toMatchObject({
      metadata: {
        generateName: "we",
        labels: { app: "shop", "projectcalico.org/serviceaccount": "sa1", "projectcalico.org/orchestrator": "k8s" },
      },
      spec: { profiles: ["kns.test", "ksa.test.sa1"], pod: "web", ports: [{ name: "anamedport", protocol: "TCP", port: 555 }] },
    });
    const pod: ApiObject | undefined = await cluster.get("v1", "pods", "web", "test");
    expect(JSON.stringify(pod)).not.toContain("cni.projectcalico.org");
    expect((await call("DEL", sandbox)).exit).toBe(0);
    expect(await stored()).toBeUndefined();
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("K30, K31: belongs to its newest sandbox, which the DEL of an older one leaves alone", async () => {
    await cluster.createPod("web", { namespace: "test" });
    await added(await world.node.addPod(), { containerId: "x" });
    const first = await uid();
    const sandbox = await world.node.addPod();
    await added(sandbox, { containerId: "y" });
    expect((await stored())?.spec.containerID).toBe("y");
    expect(await uid()).toBe(first);
    expect((await call("DEL", undefined, { containerId: "x" })).exit).toBe(0);
    expect((await stored())?.spec.containerID).toBe("y");
    expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.y"]);
    expect((await call("DEL", sandbox, { containerId: "y" })).exit).toBe(0);
    expect(await stored()).toBeUndefined();
  });

  it("is deleted while no API server answers", async () => {
    await cluster.createPod("web", { namespace: "test" });
    const sandbox = await world.node.addPod();
    await added(sandbox);
    const nowhere = { kubernetes: { kubeconfig: cluster.adminKubeconfig, k8s_api_root: "https://127.0.0.1:1" } };
    expect(await call("DEL", sandbox, { keys: nowhere })).toMatchObject({ exit: 0 });
    expect(await stored()).toBeUndefined();
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("of a virtual machine gets the machine's addresses, which outlive it and end with the machine", async () => {
    const machine = await cluster.apply(kubevirt("VirtualMachine", []));
    const owner = { apiVersion: KUBEVIRT, kind: "VirtualMachine", name: "vm", uid: machine.metadata.uid, controller: true };
    const instance = await cluster.apply(kubevirt("VirtualMachineInstance", [owner]));
    const owned = { ...owner, kind: "VirtualMachineInstance", uid: instance.metadata.uid };
    const pod = "virt-launcher-vm-abcde";
    const options = { containerId: "c1", args: `K8S_POD_NAME=${pod};K8S_POD_NAMESPACE=test;K8S_POD_INFRA_CONTAINER_ID=x` };
    const launch = async (): Promise<readonly { address: string }[]> => {
      await cluster.createPod(pod, { namespace: "test", ownerReferences: [owned] });
      const run = await call("ADD", await world.node.addPod(), options);
      return JSON.parse(run.stdout).ips;
    };
    const first = await launch();
    expect(first).toEqual([expect.objectContaining({ address: expect.stringMatching(/^10\.60\.0\./) })]);
    expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.vmi.test.vm"]);
    expect((await call("DEL", undefined, options)).exit).toBe(0);
    expect(await stored()).toBeUndefined();
    expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.vmi.test.vm"]);
    await cluster.remove("v1", "pods", pod, "test");

    expect(await launch()).toEqual(first);
    // It is being deleted, and stays for its finalizer.
    expect((await cluster.api("DELETE", `/apis/${KUBEVIRT}/namespaces/test/virtualmachines/vm`)).status).toBe(200);
    expect((await call("DEL", undefined, options)).exit).toBe(0);
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("says that a kubeconfig is missing when policy.type asks for the pod, and works without one otherwise", async () => {
    const sandbox = await world.node.addPod();
    const refused = await call("ADD", sandbox, { keys: { kubernetes: {} } });
    expect(refused.exit).toBe(1);
    expect(JSON.parse(refused.stdout)).toMatchObject({ details: expect.stringContaining("kubeconfig-missing") });
    await added(sandbox, { keys: { kubernetes: {}, policy: {} } });
    expect((await stored())?.spec.profiles).toEqual(["net1"]);
    const profile = (await etcd.contents()).get("/calico/resources/v3/projectcalico.org/profiles/net1");
    expect(JSON.parse(profile ?? "").spec.ingress).toEqual([{ action: "Allow" }]);
  });
});

describe("A pod whose endpoint a controller writes between the read of a DEL and its transaction", () => {
  const proxy = shared(() => EtcdFaultProxy.start(etcd));

  /** Another client's write before each of the first transactions that delete the endpoint; how many of these came in all. */
  function interfere(writes: number): { readonly deletions: number; readonly written: readonly string[] } {
    const seen = { deletions: 0, written: [] as string[] };
    proxy.beforeEach(async ({ path, body }) => {
      if (path !== "/v3/kv/txn" || !body.includes(`"requestDeleteRange":{"key":"${btoa(ENDPOINT)}"}`)) return;
      if (++seen.deletions > writes) return;
      const labelled = JSON.stringify({ ...(await stored()), touched: seen.deletions });
      await etcd.put(ENDPOINT, labelled);
      seen.written.push(labelled);
    });
    return seen;
  }

  async function addedThroughProxy(): Promise<{ readonly pod: Pod; readonly keys: { readonly etcd_endpoints: string } }> {
    await connectNode(world.node, proxy);
    await cluster.createPod("web", { namespace: "test" });
    const pod = await world.node.addPod();
    const keys = { etcd_endpoints: `http://127.0.0.1:${proxy.port}` };
    await added(pod, { keys });
    return { pod, keys };
  }

  it("is deleted at the revision that is there by then", async () => {
    const { pod, keys } = await addedThroughProxy();
    const seen = interfere(ATTEMPTS - 1);
    expect(await call("DEL", pod, { keys })).toMatchObject({ exit: 0 });
    expect(seen).toMatchObject({ deletions: ATTEMPTS, written: { length: ATTEMPTS - 1 } });
    expect(await stored()).toBeUndefined();
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
  });

  it("keeps its addresses, and the endpoint as it was written last, when that goes on; a later DEL takes it all", async () => {
    const { pod, keys } = await addedThroughProxy();
    const seen = interfere(Number.POSITIVE_INFINITY);
    const refused = await call("DEL", pod, { keys });
    expect(refused).toMatchObject({ exit: 1, stdout: expect.stringContaining("endpoint-contended") });
    expect(seen.deletions).toBe(ATTEMPTS);
    expect(JSON.stringify(await stored())).toBe(seen.written.at(-1));
    expect(await world.keys("ipam/v2/handle/")).toEqual(["/calico/ipam/v2/handle/net1.cid1"]);

    interfere(0);
    expect(await call("DEL", pod, { keys })).toMatchObject({ exit: 0 });
    expect(await stored()).toBeUndefined();
    expect(await world.keys("ipam/v2/handle/")).toEqual([]);
    await world.node.expectClean();
  });
});
