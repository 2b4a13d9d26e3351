import { buildEndpoint, endpointKey, findOwnEndpoint, withEndpointOf, withProfile } from "../../../../lib/workload/endpoint.ts";
import type { WorkloadIdentity } from "../../../../lib/workload/identity.ts";

const PLAIN: WorkloadIdentity = {
  orchestrator: "cni",
  node: "node1",
  namespace: "default",
  pod: "",
  containerId: "cid1",
  endpoint: "eth0",
};
const POD: WorkloadIdentity = { ...PLAIN, orchestrator: "k8s", namespace: "rec", pod: "pod-1" };
const FACTS = {
  network: "net1",
  policyType: "",
  addresses: ["10.60.0.0/32", "fd60::/128"],
  hostInterface: "calicid1",
  mac: "02:00:00:00:00:01",
};

describe("buildEndpoint", () => {
  it("describes a plain container (C§2.6 step 5)", () => {
    expect(buildEndpoint({ ...FACTS, identity: PLAIN })).toEqual({
      name: "node1-cni-cid1-eth0",
      namespace: "default",
      labels: { "projectcalico.org/namespace": "default", "projectcalico.org/orchestrator": "cni" },
      orchestrator: "cni",
      node: "node1",
      containerID: "cid1",
      pod: "",
      endpoint: "eth0",
      serviceAccountName: "",
      generateName: "",
      ipNetworks: ["10.60.0.0/32", "fd60::/128"],
      ipNATs: [],
      profiles: ["net1"],
      interfaceName: "calicid1",
      mac: "02:00:00:00:00:01",
      ports: [],
      allowSpoofedSourcePrefixes: [],
    });
  });

  it("describes a pod without an API server", () => {
    expect(buildEndpoint({ ...FACTS, identity: POD })).toMatchObject({
      name: "node1-k8s-pod--1-eth0",
      namespace: "rec",
      pod: "pod-1",
      containerID: "cid1",
      labels: { "projectcalico.org/namespace": "rec", "projectcalico.org/orchestrator": "k8s" },
      profiles: ["net1"],
    });
  });

  it("takes over what Kubernetes knows of a pod (C§7.3)", () => {
    const pod = { labels: { app: "web" }, serviceAccountName: "web.sa", generateName: "pod-", ports: [] };
    expect(buildEndpoint({ ...FACTS, policyType: "k8s", identity: POD, pod })).toMatchObject({
      labels: {
        app: "web",
        "projectcalico.org/namespace": "rec",
        "projectcalico.org/orchestrator": "k8s",
        "projectcalico.org/serviceaccount": "web.sa",
      },
      serviceAccountName: "web.sa",
      generateName: "pod-",
      profiles: ["kns.rec", "ksa.rec.web.sa"],
    });
  });

  it("lets no label of the pod stand in for ours", () => {
    const pod = { labels: { "projectcalico.org/namespace": "kube-system" }, serviceAccountName: "", generateName: "", ports: [] };
    const endpoint = buildEndpoint({ ...FACTS, policyType: "k8s", identity: POD, pod });
    expect(endpoint.labels["projectcalico.org/namespace"]).toBe("rec");
    expect(endpoint.profiles).toEqual(["kns.rec"]);
  });

  it.each([
    [62, true],
    [63, false],
  ])("labels the service account while its name has %i characters: %s", (length, isLabelled) => {
    const pod = { labels: {}, serviceAccountName: "s".repeat(length), generateName: "", ports: [] };
    expect("projectcalico.org/serviceaccount" in buildEndpoint({ ...FACTS, identity: POD, pod }).labels).toBe(isLabelled);
  });

  it("cannot name a container whose id ends with a dash (recording env-container-dash)", () => {
    expect(() => buildEndpoint({ ...FACTS, identity: { ...PLAIN, containerId: "c1-" } })).toThrow(
      "error constructing WorkloadEndpoint name: error with field containerID = 'c1-' (field must not end with a '-')",
    );
  });
});

describe("endpointKey", () => {
  it("is where buildEndpoint puts the record", () => {
    const endpoint = buildEndpoint({ ...FACTS, identity: PLAIN });
    expect({ namespace: endpoint.namespace, name: endpoint.name }).toEqual(endpointKey(PLAIN));
    expect(endpoint.labels).toEqual({ "projectcalico.org/namespace": "default", "projectcalico.org/orchestrator": "cni" });
  });
});

describe("the existing endpoint of a workload", () => {
  const listed = [{ name: "node1-k8s-pod--1--b-eth0" }, { name: "node1-k8s-pod--1-net1" }, { name: "node1-k8s-pod--1-eth0" }];

  it("is the first of the same workload, under whatever endpoint name", () => {
    expect(findOwnEndpoint(listed, POD)).toEqual({ name: "node1-k8s-pod--1-net1" });
    expect(findOwnEndpoint(listed, { ...POD, node: "node2" })).toBeUndefined();
    expect(findOwnEndpoint([], POD)).toBeUndefined();
  });

  it("gives the workload its endpoint name back", () => {
    expect(withEndpointOf(POD, { name: "node1-k8s-pod--1-net1" })).toEqual({ ...POD, endpoint: "net1" });
  });

  it("gets each network's profile once", () => {
    const endpoint = buildEndpoint({ ...FACTS, identity: PLAIN });
    expect(withProfile(endpoint, "net1").profiles).toEqual(["net1"]);
    expect(withProfile(endpoint, "net2").profiles).toEqual(["net1", "net2"]);
  });
});
