/**
 * Pods as the API server knows them: rows K35 and K36 of C§11.2, and the states a pod can be in, wherever Calico's
 * objects are.
 */
import { fresh, shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { BOTH_STORES, PodStores } from "../../support/kubernetes/pod-stores.ts";
import { LEGACY } from "../../support/kubernetes/test-cluster.ts";

const stores = shared(PodStores.start);

describe.each(BOTH_STORES)("A pod, %s", (store) => {
  const node = fresh(() => stores.node(store, { pools: ["10.60.0.0/26"] }));

  it("K35: with a service account has its profile and label, and its named port", async () => {
    await node.pod("pod", { serviceAccountName: "testserviceaccount", ports: [{ name: "anamedport", containerPort: 555 }] });
    await node.add();

    const endpoint = await node.endpoint();
    expect(endpoint).toMatchObject({
      serviceAccountName: "testserviceaccount",
      profiles: ["kns.test", "ksa.test.testserviceaccount"],
      ports: [expect.objectContaining({ name: "anamedport", protocol: "TCP", port: 555 })],
    });
    expect(endpoint?.labels["projectcalico.org/serviceaccount"]).toBe("testserviceaccount");
  });

  it("K36: with a generated name shows what it was generated from", async () => {
    await node.pod("pod-x2x8q", { generateName: "pod-" });
    await node.add({ pod: "pod-x2x8q" });

    expect(await node.endpoint("pod-x2x8q")).toMatchObject({ generateName: "pod-", pod: "pod-x2x8q" });
  });

  it("that is not there, or whose namespace is not, is named by the ADD; DEL succeeds", async () => {
    expect(await node.refusal("ADD")).toContain('pods "pod" not found in namespace test');
    const args = ";K8S_POD_NAMESPACE=absent";
    expect(await node.refusal("ADD", { args })).toContain('namespaces "absent" not found');
    await node.del({ args });
    await node.expectNothingLeft();
  });

  it("that is being deleted is added and taken away as any other", async () => {
    await node.pod("pod", { finalizers: ["example.com/hold"] });
    await stores.cluster.api("DELETE", `/api/v1/namespaces/${NAMESPACE}/pods/pod`, { gracePeriodSeconds: 30 });

    await node.add();
    await node.del();

    expect((await node.record()).podIP ?? "").toBe("");
    await node.expectNothingLeft("pod");
  });

  it("of another node, or of the host's network, is announced, and withdrawn by DEL (Calico leaves it there)", async () => {
    await stores.cluster.createNode("node2");
    await node.pod("pod", { node: "node2" });
    const { ips } = await node.add();
    expect(await node.record()).toMatchObject({ podIP: ips[0]?.address });

    await node.del();

    await node.expectNothingLeft("pod");
  });

  it.each([["other"], [""]])("under the policy type %j needs no namespace, and its annotations are inert", async (type) => {
    await node.pod("pod", { annotations: { "cni.projectcalico.org/hwAddr": "nonsense" } });
    const conf = { policy: { type } };
    const mark = await stores.cluster.mark();

    await node.add({ conf });

    expect((await stores.cluster.requests(mark)).map(({ uri }) => uri)).not.toContain(`/api/v1/namespaces/${NAMESPACE}`);
    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });

  it("whose container id no handle can be named after is refused before anything is asked", async () => {
    await node.pod("pod");
    const mark = await stores.cluster.mark();

    expect(await node.refusal("ADD", { container: "a_b.c" })).toContain("a_b.c");

    expect(await stores.cluster.requests(mark)).toEqual([]);
    await node.del({ container: "a_b.c" });
  });
});

// In etcd the endpoint is named after the node that the configuration names, and a container without a pod has its own.
describe("A pod on the API server", () => {
  it("that no node has cannot be added, and can be deleted", async () => {
    await using node = await stores.node(LEGACY, { pools: ["10.60.0.0/26"] });
    await stores.cluster.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "pod", namespace: NAMESPACE },
      spec: { containers: [{ name: "c", image: "i" }] },
    });

    expect(await node.refusal("ADD")).toContain("error with field node (field should be assigned)");
    await node.del();
    await node.expectNothingLeft("pod");
  });

  it("must be named by CNI_ARGS when it is added; a DEL without it frees the address all the same", async () => {
    await using node = await stores.node(LEGACY, { pools: ["10.60.0.0/26"], pods: ["pod"] });
    await node.add();
    const env = { CNI_ARGS: undefined };

    expect(await node.refusal("ADD", { env, container: "c2" })).toContain("unable to determine Pod name");
    await node.del({ env });

    expect(await node.held()).toEqual({});
    await node.node.expectClean();
  });
});
