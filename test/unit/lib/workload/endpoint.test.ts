import {
  buildEndpoint,
  endpointKey,
  findOwnEndpoint,
  mesosMetadata,
  sanitizeLabel,
  withEndpointOf,
  withProfile,
} from "../../../../lib/workload/endpoint.ts";
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
const MOVED = [{ key: "projectcalico.org/namespace", value: "other" }];

describe("buildEndpoint", () => {
  it("describes a plain container (C§2.6 step 5)", () => {
    expect(buildEndpoint({ ...FACTS, identity: PLAIN, mesosLabels: [{ key: "my/key", value: "a*b" }] })).toEqual({
      name: "node1-cni-cid1-eth0",
      namespace: "default",
      labels: { "my.key": "a-b", "projectcalico.org/namespace": "default", "projectcalico.org/orchestrator": "cni" },
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
  it("follows a Mesos label to another namespace, for plain containers only (recording etcd-mesos-namespace)", () => {
    expect(endpointKey(PLAIN)).toEqual({ namespace: "default", name: "node1-cni-cid1-eth0" });
    expect(endpointKey(PLAIN, MOVED)).toEqual({ namespace: "other", name: "node1-cni-cid1-eth0" });
    expect(endpointKey(POD, MOVED).namespace).toBe("rec");
  });

  it("is where buildEndpoint puts the record", () => {
    const endpoint = buildEndpoint({ ...FACTS, identity: PLAIN, mesosLabels: MOVED });
    expect({ namespace: endpoint.namespace, name: endpoint.name }).toEqual(endpointKey(PLAIN, MOVED));
    expect(endpoint.labels).toEqual({ "projectcalico.org/namespace": "other", "projectcalico.org/orchestrator": "cni" });
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

describe("labels of Mesos", () => {
  // The table of C§11.3.
  it.each([
    ["k", "k"],
    ["-my-val", "my-val"],
    ["$my..val", "my.val"],
    ["m$y.val", "m-y.val"],
    ["//my/val/", "my.val"],
    ["some_val-with.lots*of^weird#characters", "some_val-with.lots-of-weird-characters"],
    ["---", ""],
    ["a-.-b", "a.b"],
    ["a😀b", "a-b"],
  ])("%j becomes %j", (text, label) => {
    expect(sanitizeLabel(text)).toBe(label);
  });

  it("are cleaned in time that grows with their length only", () => {
    // Work that grew with the square of the length would not end.
    expect(sanitizeLabel(`a${"-".repeat(2_000_000)}b`)).toHaveLength(2_000_002);
  });

  it("move the endpoint to a namespace, and the last one counts", () => {
    expect(mesosMetadata([...MOVED, { key: "a", value: "1" }, { key: "a", value: "2" }, { key: "", value: "x" }])).toEqual({
      labels: { a: "2" },
      namespace: "other",
    });
    expect(mesosMetadata([{ key: "projectcalico.org/namespace", value: "" }])).toEqual({ labels: {}, namespace: undefined });
  });
});
