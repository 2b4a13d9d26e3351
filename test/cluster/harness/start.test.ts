/** The cluster of the tests: what it serves, what it keeps, and what can be done to it. */
import { shared } from "../../support/fixtures.ts";
import { calicoDefinitions, pluginAccess } from "../../support/kubernetes/manifests.ts";
import { calicoPlurals, pathOf } from "../../support/kubernetes/resources.ts";
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";

describe("startCluster", () => {
  const cluster = shared(startCluster);
  beforeEach(() => cluster.reset());

  it("serves every kind of both groups that manifests/ defines", async () => {
    for (const group of [LEGACY, V3] as const) {
      expect(calicoDefinitions(group)).toHaveLength(7);
      const { body } = await cluster.api("GET", `/apis/${group}`);
      const resources: unknown = expect.arrayContaining(
        calicoPlurals(group).map((name) => expect.objectContaining({ name, namespaced: false })),
      );
      expect(body).toMatchObject({ kind: "APIResourceList", groupVersion: group, resources });
    }
  });

  it("has the plugins' role exactly as manifests/plugins/rbac.yaml has it", async () => {
    const [, role] = pluginAccess();
    const { body } = await cluster.api("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/calico-cni-plugin");
    expect(body).toMatchObject({ rules: role?.rules });
  });

  it("keeps what it stored when the API server is killed and started again", async () => {
    const pool = await cluster.createPool("kept");
    await cluster.stopApiServer();
    await expect(cluster.api("GET", "/version")).rejects.toThrow();
    await cluster.startApiServer();
    expect(await cluster.get(LEGACY, "ippools", "kept")).toEqual(pool);
  });

  it("answers nothing while it is frozen, and goes on when it is thawed", async () => {
    cluster.freeze();
    const answer = cluster.api("GET", "/version");
    const first = await Promise.race([answer, new Promise((done) => setTimeout(done, 300, "silence"))]);
    cluster.thaw();
    expect(first).toBe("silence");
    expect((await answer).status).toBe(200);
  });

  it("gives back integers of 64 bits as they were written", async () => {
    const sequenceNumber = 1_787_405_600_123_456_007n;
    const spec = { cidr: "10.40.0.8/29", allocations: [], unallocated: [], attributes: [], strictAffinity: false, sequenceNumber };
    await cluster.apply({ apiVersion: LEGACY, kind: "IPAMBlock", metadata: { name: "10-40-0-8-29" }, spec });
    expect((await cluster.get(LEGACY, "ipamblocks", "10-40-0-8-29"))?.spec?.sequenceNumber).toBe(sequenceNumber);
    expect((await cluster.api("GET", pathOf(LEGACY, "ipamblocks", "10-40-0-8-29"))).text).toContain(String(sequenceNumber));
  });

  it("makes pods that stay where they were put, with the status a test gives them", async () => {
    await cluster.createNamespace("shop");
    const status = { phase: "Succeeded" };
    await cluster.createPod("cart", { namespace: "shop", node: "worker-1", annotations: { a: "b" }, status });
    const pod = { metadata: { annotations: { a: "b" } }, spec: { nodeName: "worker-1" }, status };
    expect(await cluster.get("v1", "pods", "cart", "shop")).toMatchObject(pod);
    await cluster.createPod("cart", { namespace: "shop", node: "worker-1", annotations: { c: "d" } });
    expect((await cluster.get("v1", "pods", "cart", "shop"))?.metadata.annotations).toEqual({ c: "d" });
  });

  it("writes the conditions of a pool in both groups", async () => {
    const status = { conditions: [{ type: "Allocatable", status: "False", reason: "PoolDisabled" }] };
    for (const group of [LEGACY, V3] as const) {
      await cluster.createPool("held", { group, status });
      expect(await cluster.get(group, "ippools", "held")).toMatchObject({ status });
    }
  });

  it("is empty after a reset, objects with finalizers included", async () => {
    await cluster.createNamespace("shop");
    await cluster.createNode("worker-1");
    await cluster.createPod("cart", { namespace: "shop", finalizers: ["test.example/hold"] });
    await cluster.createPool("held", { group: V3, finalizers: ["projectcalico.org/ippool-finalizer"] });
    await cluster.apply({ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", metadata: { name: "vm", namespace: "shop" }, spec: {} });
    await cluster.setReady(true);
    await cluster.reset();
    const left = await Promise.all([
      cluster.list("v1", "pods"),
      cluster.list("v1", "nodes"),
      cluster.list("kubevirt.io/v1", "virtualmachines"),
      ...([LEGACY, V3] as const).flatMap((group) => calicoPlurals(group).map((plural) => cluster.list(group, plural))),
    ]);
    expect(left.flat()).toEqual([]);
    const namespaces = (await cluster.list("v1", "namespaces")).map(({ metadata }) => metadata.name);
    expect(namespaces).toEqual(["default", "kube-node-lease", "kube-public", "kube-system"]);
  });
});

describe("a cluster of its own", () => {
  it("serves only the groups it was asked for, beside the shared one", async () => {
    await using other = await startCluster();
    await using cluster = await startCluster({ groups: [V3] });
    expect(cluster.port).not.toBe(other.port);
    const { body } = await cluster.api("GET", "/apis");
    expect(body).toMatchObject({ groups: expect.arrayContaining([expect.objectContaining({ name: "projectcalico.org" })]) });
    expect(body).not.toMatchObject({ groups: expect.arrayContaining([expect.objectContaining({ name: "crd.projectcalico.org" })]) });
    await cluster.setReady(true);
    expect(await cluster.list(V3, "clusterinformations")).toHaveLength(1);
    // The role names both groups, served or not.
    expect((await cluster.apiAs(await cluster.tokenFor("cni"), "GET", pathOf(V3, "clusterinformations", "default"))).status).toBe(200);
  });
});
