/** Pods, namespaces and nodes of a real API server, and pods as workload endpoints (C§7.5, C§7.6), with no more rights than the plugins have. */
import { fresh, shared } from "../../support/fixtures.ts";
import { LEGACY, startCluster, type TestCluster } from "../../support/kubernetes/test-cluster.ts";
import { sampleEndpoint } from "../../support/samples.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const WEB = { namespace: "default", name: "web" };
const ENDPOINT = { namespace: "default", name: "node1-k8s-web-eth0" };
const RECORD = { containerID: "c1", ipNetworks: ["10.60.0.1/32", "fd80::1/128"] };
const ANNOTATED = {
  "cni.projectcalico.org/containerID": "c1",
  "cni.projectcalico.org/podIP": "10.60.0.1/32",
  "cni.projectcalico.org/podIPs": "10.60.0.1/32,fd80::1/128",
};
const BLANKED = { ...ANNOTATED, "cni.projectcalico.org/podIP": "", "cni.projectcalico.org/podIPs": "" };

/** The record of the pod with this uid. */
function write(uid: string, record: typeof RECORD | { containerID: string; ipNetworks: string[] } = RECORD): Promise<void> {
  return store.records.write(sampleEndpoint(ENDPOINT.namespace, ENDPOINT.name, record), { podUid: uid });
}

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(async () => {
  await cluster.reset();
  proxy.clear();
});
const store = fresh(() => openDatastoreOf(proxy, { group: LEGACY }));

const annotations = async (name = "web") => (await cluster.get("v1", "pods", name))?.metadata.annotations;
const asked = () => proxy.requests.map(({ method, path }) => `${method} ${path}`);

async function createWeb(more: Parameters<TestCluster["createPod"]>[1] = {}): Promise<{ readonly uid: string }> {
  const { metadata } = await cluster.createPod("web", more);
  return { uid: metadata.uid };
}

async function recreateWeb(): Promise<void> {
  await cluster.remove("v1", "pods", "web");
  await createWeb({ annotations: { "cni.projectcalico.org/containerID": "c2", "cni.projectcalico.org/podIP": "10.60.0.9/32" } });
}

describe("a pod", () => {
  it("is read with all that an ADD needs", async () => {
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "11", controller: true };
    await createWeb({
      namespace: "default",
      generateName: "web-",
      labels: { app: "web" },
      annotations: { "x.org/a": "1" },
      ownerReferences: [owner],
      serviceAccountName: "builder",
      ports: [
        { name: "http", containerPort: 80, hostPort: 8080, protocol: "TCP" },
        { containerPort: 53, protocol: "UDP" },
      ],
      status: { phase: "Running", podIP: "10.60.0.1", podIPs: [{ ip: "10.60.0.1" }, { ip: "fd80::1" }] },
    });
    expect(await store.core.pod(WEB)).toMatchObject({
      ...WEB,
      generateName: "web-",
      labels: { app: "web" },
      annotations: { "x.org/a": "1" },
      owners: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "11", isController: true }],
      isDeleting: false,
      nodeName: "node1",
      serviceAccountName: "builder",
      isHostNetwork: false,
      ports: [
        { name: "http", protocol: "TCP", containerPort: 80, hostPort: 8080, hostIP: "" },
        { name: "", protocol: "UDP", containerPort: 53, hostPort: 0, hostIP: "" },
      ],
      phase: "Running",
      podIP: "10.60.0.1",
      podIPs: ["10.60.0.1", "fd80::1"],
    });
  });

  it("that is missing, or whose name no pod can have, is nobody's", async () => {
    expect(await store.core.pod(WEB)).toBeUndefined();
    const before = proxy.requests.length;
    for (const name of ["..", "web/status", "Web", "", "a?b"]) {
      expect(await store.core.pod({ namespace: "default", name })).toBeUndefined();
      expect(await store.core.pod({ namespace: name, name: "web" })).toBeUndefined();
      expect(await store.records.clear({ namespace: "default", name: `node1-k8s-${name}-eth0` }, "c1")).toBe("gone");
    }
    expect(proxy.requests.length).toBe(before);
  });

  it("is annotated with its record, by one request that leaves all else as it is", async () => {
    const { uid } = await createWeb({ annotations: { "x.org/a": "1" }, status: { phase: "Running" } });
    await write(uid);
    expect(await annotations()).toEqual({ "x.org/a": "1", ...ANNOTATED });
    expect((await cluster.get("v1", "pods", "web"))?.status).toMatchObject({ phase: "Running" });
    expect(asked()).toEqual(["PATCH /api/v1/namespaces/default/pods/web/status"]);
  });

  it("is annotated without addresses when there are none", async () => {
    const { uid } = await createWeb();
    await write(uid, { containerID: "c1", ipNetworks: [] });
    expect(await annotations()).toEqual({ "cni.projectcalico.org/containerID": "c1" });
  });

  it("is annotated once although the first answer is lost", async () => {
    const { uid } = await createWeb();
    proxy.on({ method: "PATCH" }, { kind: "lose-answer" });
    await write(uid);
    expect(await annotations()).toEqual(ANNOTATED);
  });

  it("that was made anew under the same name is not written to", async () => {
    const { uid } = await createWeb();
    await recreateWeb();
    const before = await annotations();
    await expect(write(uid)).rejects.toMatchObject({ failure: "not-found" });
    expect(await annotations()).toEqual(before);
    await cluster.remove("v1", "pods", "web");
    await expect(write(uid)).rejects.toMatchObject({ failure: "not-found" });
  });

  it("loses its addresses and keeps its container when that container goes, however often it goes", async () => {
    const { uid } = await createWeb();
    await write(uid);
    proxy.clear();
    proxy.on({ method: "PATCH", nth: 2 }, { kind: "lose-answer" });
    expect(await store.records.clear(ENDPOINT, "c1")).toBe("cleared");
    expect(asked()).toEqual(["PATCH /api/v1/namespaces/default/pods/web/status"]);
    expect(await store.records.clear(ENDPOINT, "c1")).toBe("cleared");
    expect(await annotations()).toEqual(BLANKED);
  });

  it("keeps everything when another container goes, or when it never was served", async () => {
    const { uid } = await createWeb();
    expect(await store.records.clear(ENDPOINT, "c1")).toBe("not-ours");
    expect(await annotations()).toBeUndefined();
    await write(uid);
    expect(await store.records.clear(ENDPOINT, "c")).toBe("not-ours");
    expect(await annotations()).toEqual(ANNOTATED);
    await cluster.createPod("other", { annotations: { "x.org/a": "1" } });
    expect(await store.records.clear({ namespace: "default", name: "node1-k8s-other-eth0" }, "c1")).toBe("not-ours");
    expect(await annotations("other")).toEqual({ "x.org/a": "1" });
  });

  it("that is gone has nothing to clear", async () => {
    expect(await store.records.clear(ENDPOINT, "c1")).toBe("gone");
  });

  it("is not to be read by whoever has no right to, and the message says so", async () => {
    await createWeb();
    await using stranger = await openDatastoreOf(cluster, { group: LEGACY, identity: "stranger" });
    const forbidden = { failure: "unauthorized", message: expect.stringMatching(/^connection is unauthorized: pods "web" is forbidden/) };
    await expect(stranger.core.pod(WEB)).rejects.toMatchObject(forbidden);
    await expect(stranger.records.clear(ENDPOINT, "c1")).rejects.toMatchObject({ failure: "unauthorized" });
  });
});

describe("namespaces and nodes", () => {
  it("are read once, whoever asks, and hold what selectors and ranges need", async () => {
    await cluster.createNamespace("shop", { "cni.projectcalico.org/ipv4pools": '["a"]' }, { team: "shop" });
    const spec = { podCIDR: "10.61.0.0/24", podCIDRs: ["10.61.0.0/24", "fd81::/120"] };
    await cluster.createNode("node1", { zone: "edge", rack: "7" }, spec);
    const path = "/api/v1/nodes/node1";
    const labels = { "projectcalico.org/labels": '{"zone":"core","own":"1"}' };
    await cluster.api("PATCH", path, { metadata: { annotations: labels } });

    const both = await Promise.all([store.core.namespace("shop"), store.namespaces.get("shop")]);
    expect(both[0]).toMatchObject({ name: "shop", labels: { team: "shop" }, annotations: { "cni.projectcalico.org/ipv4pools": '["a"]' } });
    expect(both[1]?.value).toMatchObject({ name: "shop", labels: both[0]?.labels });
    const node = await store.core.node("node1");
    expect(node).toEqual({
      name: "node1",
      labels: expect.objectContaining({ zone: "edge", rack: "7", own: "1" }),
      podCIDRs: spec.podCIDRs,
    });
    expect((await store.nodes.get("node1"))?.value).toMatchObject({ name: "node1", labels: node?.labels });
    expect(asked().sort()).toEqual(["GET /api/v1/namespaces/shop", "GET /api/v1/nodes/node1"]);
  });

  it("that are missing are so", async () => {
    expect(await store.core.namespace("nowhere")).toBeUndefined();
    expect(await store.nodes.get("Node-A")).toBeUndefined();
  });

  it("are asked for again after a failure", async () => {
    await cluster.createNode("node1");
    proxy.on({ path: "/nodes/" }, { kind: "answer", status: 403 });
    await expect(store.core.node("node1")).rejects.toMatchObject({ failure: "unauthorized" });
    expect((await store.core.node("node1"))?.name).toBe("node1");
  });

  it("have an API server that tells its version", async () => {
    expect(await store.core.serverVersion(5000)).toMatch(/^v1\./);
  });
});

describe("a pod as a workload endpoint", () => {
  it("is found by its own name and by its beginning, with one request each", async () => {
    const { uid } = await createWeb({ labels: { app: "web" } });
    await write(uid);
    proxy.clear();
    const found = await store.endpoints.get(ENDPOINT);
    expect(found?.value).toMatchObject({ ...ENDPOINT, pod: "web", node: "node1", containerID: "c1", ipNetworks: RECORD.ipNetworks });
    expect(await store.endpoints.listByPrefix("default", "node1-k8s-web-")).toEqual([found]);
    expect(asked()).toEqual(["GET /api/v1/namespaces/default/pods/web", "GET /api/v1/namespaces/default/pods/web"]);
  });

  it("is not found under another node's name, nor by what is no pod of Kubernetes", async () => {
    await createWeb();
    expect(await store.endpoints.get({ namespace: "default", name: "node2-k8s-web-eth0" })).toBeUndefined();
    expect(await store.endpoints.listByPrefix("default", "node2-k8s-web-")).toEqual([]);
    expect(await store.endpoints.listByPrefix("default", "node1-k8s-gone-")).toEqual([]);
    const before = proxy.requests.length;
    expect(await store.endpoints.listByPrefix("default", "node1-cni-c1-")).toEqual([]);
    expect(await store.endpoints.get({ namespace: "default", name: "node1-k8s" })).toBeUndefined();
    expect(proxy.requests.length).toBe(before);
  });

  it("is written as annotations, also when it is written for the first time", async () => {
    await createWeb();
    const found = await store.endpoints.get(ENDPOINT);
    if (found === undefined) throw new Error("no endpoint");
    const value = { ...found.value, ...RECORD };
    expect((await store.endpoints.create(ENDPOINT, value)).value).toMatchObject(RECORD);
    expect(await annotations()).toEqual(ANNOTATED);
    await store.endpoints.update(ENDPOINT, { ...value, containerID: "c7" }, found.revision);
    expect(await annotations()).toEqual({ ...ANNOTATED, "cni.projectcalico.org/containerID": "c7" });
  });

  it("is blanked at the revision that was read, and at no other", async () => {
    const { uid } = await createWeb();
    const first = await store.endpoints.get(ENDPOINT);
    await write(uid);
    await expect(store.endpoints.delete(ENDPOINT, first?.revision ?? "")).rejects.toMatchObject({ failure: "conflict" });
    expect(await annotations()).toEqual(ANNOTATED);
    const now = await store.endpoints.get(ENDPOINT);
    await store.endpoints.delete(ENDPOINT, now?.revision ?? "");
    expect(await annotations()).toEqual(BLANKED);
  });

  it("of a pod that was made anew is left alone", async () => {
    await createWeb();
    const old = await store.endpoints.get(ENDPOINT);
    if (old === undefined) throw new Error("no endpoint");
    await recreateWeb();
    const before = await annotations();
    await expect(store.endpoints.update(ENDPOINT, old.value, old.revision)).rejects.toMatchObject({ failure: "not-found" });
    await expect(store.endpoints.delete(ENDPOINT, old.revision)).rejects.toMatchObject({
      failure: expect.stringMatching("conflict|not-found"),
    });
    expect(await annotations()).toEqual(before);
  });

  it("is listed for an operator with all others that have a network of their own, broken annotations or not", async () => {
    await createWeb({ annotations: { ...ANNOTATED, "cni.projectcalico.org/floatingIPs": "[" } });
    await cluster.createNamespace("shop");
    await cluster.createPod("cart", { namespace: "shop", annotations: { "cni.projectcalico.org/podIPs": "10.60.0.2/32,rubbish" } });
    const spec = { nodeName: "node1", hostNetwork: true, containers: [{ name: "c", image: "pause" }] };
    await cluster.api("POST", "/api/v1/namespaces/shop/pods", { apiVersion: "v1", kind: "Pod", metadata: { name: "host" }, spec });
    await cluster.api("POST", "/api/v1/namespaces/shop/pods", {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "waiting" },
      spec: { containers: spec.containers },
    });
    const problems: string[] = [];
    await using admin = await openDatastoreOf(cluster, {
      group: LEGACY,
      identity: "admin",
      onDamaged: ({ message }) => problems.push(message),
    });
    const listed = (await admin.endpoints.list()).map(({ value }) => [value.namespace, value.pod, value.ipNetworks]);
    expect(listed).toEqual([
      ["default", "web", RECORD.ipNetworks],
      ["shop", "cart", ["10.60.0.2/32"]],
    ]);
    expect(problems).toEqual([expect.stringContaining("default/web"), expect.stringContaining("shop/cart")]);
  });

  it("is not listed for the plugins, whose role does not reach so far, and the message says so", async () => {
    await expect(store.endpoints.list()).rejects.toMatchObject({
      failure: "unauthorized",
      message: expect.stringMatching(/pods is forbidden: .* cannot list resource "pods"/),
    });
  });
});

describe("what a virtual machine's pod leads to", () => {
  it("is its instance and its machine", async () => {
    const { virtualMachines } = store;
    const vm = { namespace: "default", name: "vm1" };
    expect(await virtualMachines.machines.get(vm)).toBeUndefined();
    const { metadata } = await cluster.apply({ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", metadata: { ...vm }, spec: {} });
    const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1", uid: metadata.uid, controller: true };
    await cluster.apply({
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      metadata: { ...vm, ownerReferences: [owner], finalizers: ["x.org/f"] },
      spec: {},
    });
    await cluster.api("DELETE", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm1");
    await createWeb({ labels: { "kubevirt.io/migrationJobUID": "7" } });

    expect((await virtualMachines.machines.get(vm))?.value).toMatchObject({ ...vm, uid: metadata.uid, owners: [], isDeleting: false });
    const { controller: _controller, ...plainOwner } = owner;
    expect((await virtualMachines.instances.get(vm))?.value).toMatchObject({
      owners: [{ ...plainOwner, isController: true }],
      isDeleting: true,
    });
    expect((await virtualMachines.pods.get(WEB))?.value.labels).toEqual({ "kubevirt.io/migrationJobUID": "7" });
  });
});
