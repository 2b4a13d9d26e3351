import { checkIdentity, identifyWorkload, legacyHandleId, workloadHandleId } from "../../../../lib/workload/identity.ts";
import { parseCniArgs } from "../../../../lib/workload/requested.ts";

const identify = (args: string, more: { containerId?: string; interfaceName?: string; node?: string } = {}) =>
  identifyWorkload({ containerId: "cid1", interfaceName: "eth0", node: "node1", ...more, args: parseCniArgs(`IgnoreUnknown=1;${args}`) });

describe("identifyWorkload", () => {
  it("sees a pod where both of its names are given", () => {
    expect(identify("K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop")).toEqual({
      orchestrator: "k8s",
      node: "node1",
      namespace: "shop",
      pod: "web-0",
      containerId: "cid1",
      endpoint: "eth0",
    });
  });

  it.each(["K8S_POD_NAMESPACE=shop", "K8S_POD_NAME=web-0", "K8S_POD_NAME=;K8S_POD_NAMESPACE=shop", "a=b"])(
    "sees a plain container of the namespace default in %j (recordings args-11, args-13)",
    (args) => {
      expect(identify(args)).toEqual({
        orchestrator: "cni",
        node: "node1",
        namespace: "default",
        pod: "",
        containerId: "cid1",
        endpoint: "eth0",
      });
    },
  );

  it("puts a plain container into CNI_TEST_NAMESPACE, and a pod never", () => {
    expect(identify("CNI_TEST_NAMESPACE=plain").namespace).toBe("plain");
    expect(identify("CNI_TEST_NAMESPACE=").namespace).toBe("default");
    expect(identify("CNI_TEST_NAMESPACE=plain;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop").namespace).toBe("shop");
  });
});

describe("handle ids", () => {
  it("join the network and the container id", () => {
    expect(workloadHandleId("k8s-pod-network", "0123abc")).toBe("k8s-pod-network.0123abc");
  });

  it("were the pod's names, or the container id, in early versions (recordings legacy-handle*)", () => {
    expect(legacyHandleId(identify("K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop"))).toBe("shop.web-0");
    expect(legacyHandleId(identify("a=b"))).toBe("cid1");
  });
});

describe("checkIdentity", () => {
  const plain = (more: Parameters<typeof identify>[1]) => identify("a=b", more);

  it.each([
    [{ containerId: "a_b.c" }, "a.b_c-d"],
    [{ interfaceName: "Eth0" }, "net1"],
    [{ node: "Node_1" }, "NET"],
  ])("takes every name that CNI allows into the local datastore: %j in %s", (more, network) => {
    expect(() => checkIdentity(plain(more), network, { takesNames: "any" })).not.toThrow();
  });

  it.each([
    [{ containerId: "a_b.c" }, "net1", '"net1.a_b.c" is no name that Kubernetes takes'],
    [{}, "a.b_c-d", '"a.b_c-d.cid1" is no name'],
    [{ containerId: "c".repeat(250) }, "net1", "is no name"],
    [{ containerId: "c." }, "net1", "is no name"],
  ])(
    "refuses for Kubernetes what no handle can be named: %j in %s (recordings id-legal-but-not-calico, name-dots)",
    (more, network, message) => {
      expect(() => checkIdentity(plain(more), network, { takesNames: "handles" })).toThrow(
        expect.objectContaining({ word: "identity-invalid", code: 999, message: expect.stringContaining(message) }),
      );
    },
  );

  it("takes for Kubernetes what handles can be named, in any letter case (recording ifname-upper)", () => {
    expect(() => checkIdentity(plain({ containerId: "ABC.d", interfaceName: "Eth0" }), "Net.1", { takesNames: "handles" })).not.toThrow();
  });

  it.each([
    [{ interfaceName: "Eth0" }, "endpoint 'Eth0' cannot be stored"],
    [{ node: "Node1" }, "node 'Node1' cannot be stored"],
    [{ containerId: "a_b" }, "containerID 'a_b' cannot be stored"],
  ])("refuses for etcd what Calico's clients refuse: %j (recording etcd-upper-ifname)", (more, message) => {
    expect(() => checkIdentity(plain(more), "net1", { takesNames: "fields" })).toThrow(
      expect.objectContaining({ message: expect.stringContaining(message) }),
    );
  });

  it("takes ordinary names for etcd", () => {
    expect(() => checkIdentity(plain({}), "any_net", { takesNames: "fields" })).not.toThrow();
  });
});
