import { decodeNode, decodePod } from "../../../../lib/kubernetes/objects.ts";

describe("a pod", () => {
  it("that is only a name has empty values for the rest", () => {
    expect(decodePod({ metadata: { name: "a", namespace: "b" }, spec: null })).toEqual({
      name: "a",
      namespace: "b",
      uid: "",
      resourceVersion: "",
      labels: {},
      annotations: {},
      owners: [],
      generateName: "",
      creationTimestamp: "",
      isDeleting: false,
      nodeName: "",
      serviceAccountName: "",
      isHostNetwork: false,
      ports: [],
      phase: "",
      podIP: "",
      podIPs: [],
    });
  });

  it("has the ports of its containers, then those of its init containers", () => {
    const containers = [{ name: "a", ports: [{ containerPort: 80, name: "http" }] }, { name: "b" }];
    const spec = {
      containers,
      initContainers: [{ ports: [{ containerPort: 81, hostPort: 8081, hostIP: "192.0.2.1", protocol: "SCTP" }] }],
    };
    expect(decodePod({ metadata: {}, spec }).ports).toEqual([
      { name: "http", protocol: "", containerPort: 80, hostPort: 0, hostIP: "" },
      { name: "", protocol: "SCTP", containerPort: 81, hostPort: 8081, hostIP: "192.0.2.1" },
    ]);
  });

  it("tells a controller from other owners", () => {
    const owners = [
      { apiVersion: "apps/v1", kind: "ReplicaSet", name: "r", uid: "1", controller: true },
      { kind: "Other", name: "o", uid: "2" },
    ];
    expect(decodePod({ metadata: { ownerReferences: owners } }).owners.map(({ isController }) => isController)).toEqual([true, false]);
  });
});

describe("a node", () => {
  it.each([
    ['{"zone":"core","own":"1"}', { zone: "edge", own: "1" }],
    ['{"own":1}', { zone: "edge" }],
    ["{", { zone: "edge" }],
    ["", { zone: "edge" }],
    ["[]", { zone: "edge" }],
  ])("has the labels of the annotation %p below its own", (annotation, labels) => {
    const metadata = { name: "n", labels: { zone: "edge" }, annotations: { "projectcalico.org/labels": annotation } };
    expect(decodeNode({ metadata }).labels).toEqual(labels);
  });
});
