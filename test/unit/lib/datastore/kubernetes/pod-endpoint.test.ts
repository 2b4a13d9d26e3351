import { convertPod, isEndpointPod } from "../../../../../lib/datastore/kubernetes/pod-endpoint.ts";
import type { ContainerPort, Pod } from "../../../../../lib/kubernetes/objects.ts";
import { isFinished } from "../../../../../lib/workload/annotations/pod-addresses.ts";
import type { WorkloadEndpoint } from "../../../../../lib/workload/endpoint.ts";
import { annotatedPod, podOf } from "../../../../support/pods.ts";

const AWS = "vpc.amazonaws.com/pod-ips";

function port(change: Partial<ContainerPort>): ContainerPort {
  return { name: "", protocol: "", containerPort: 80, hostPort: 0, hostIP: "", ...change };
}

/** The endpoint of a pod without problems; else the first of them is thrown. */
function endpointOfPod(pod: Pod, interfacePrefix?: string): WorkloadEndpoint {
  const { endpoint, problems } = convertPod(pod, interfacePrefix);
  const [first] = problems;
  if (first !== undefined) throw first;
  return endpoint;
}

describe("the endpoint of a pod", () => {
  it("has what the pod has (C§7.5)", () => {
    const pod = annotatedPod(
      { podIP: "10.60.0.0/32", containerID: "cid1" },
      {
        namespace: "default",
        name: "pod-a",
        nodeName: "node-1",
        labels: { app: "web", "projectcalico.org/namespace": "forged" },
        serviceAccountName: "web.sa",
        generateName: "pod-",
        ports: [port({ name: "http" })],
      },
    );
    expect(endpointOfPod(pod)).toEqual({
      name: "node--1-k8s-pod--a-eth0",
      namespace: "default",
      labels: {
        app: "web",
        "projectcalico.org/namespace": "default",
        "projectcalico.org/orchestrator": "k8s",
        "projectcalico.org/serviceaccount": "web.sa",
      },
      orchestrator: "k8s",
      node: "node-1",
      containerID: "cid1",
      pod: "pod-a",
      endpoint: "eth0",
      serviceAccountName: "web.sa",
      generateName: "pod-",
      ipNetworks: ["10.60.0.0/32"],
      ipNATs: [],
      profiles: ["kns.default", "ksa.default.web.sa"],
      interfaceName: "cali5e1c4d6c68c",
      mac: "",
      ports: [{ name: "http", protocol: "TCP", port: 80, hostPort: 0, hostIP: "" }],
      allowSpoofedSourcePrefixes: [],
      isClaimed: true,
    });
  });

  it.each([
    ["podIPs", annotatedPod({ podIPs: "10.1.0.3/32" }), true],
    ["podIP", annotatedPod({ podIP: "10.1.0.3/32" }), true],
    ["those of AWS", podOf({ annotations: { [AWS]: "10.1.0.5" } }), true],
    ["the status as well", annotatedPod({ podIPs: "10.1.0.3/32" }, { podIP: "10.1.0.2" }), undefined],
    ["nothing", podOf(), undefined],
  ])("S17: only claims addresses that it has by annotations alone: %s", (_, pod, isClaimed) => {
    expect(endpointOfPod(pod).isClaimed).toBe(isClaimed);
  });

  it("has little of a pod that has little", () => {
    expect(endpointOfPod(podOf())).toMatchObject({
      name: "node1-k8s-pod1-eth0",
      containerID: "",
      labels: { "projectcalico.org/namespace": "rec", "projectcalico.org/orchestrator": "k8s" },
      serviceAccountName: "",
      generateName: "",
      profiles: ["kns.rec"],
      ipNetworks: [],
    });
    expect(endpointOfPod(podOf())).not.toHaveProperty("qosControls");
    expect(endpointOfPod(podOf())).not.toHaveProperty("annotations");
  });

  // The vectors of C§4.1.
  it.each([
    ["default", "podA", undefined, "cali7f94ce7c295"],
    ["default", "podB", undefined, "cali92cf1f5e9f6"],
    ["namespace", "podname", "eni,veth,foo", "eni82111e10a96"],
    ["default", "podA", "much-too-long", ""],
  ])("has the interface that %s/%s has with the prefix %j: %j", (namespace, name, prefix, expected) => {
    expect(endpointOfPod(podOf({ namespace, name }), prefix).interfaceName).toBe(expected);
  });

  it.each([
    [62, true],
    [63, false],
  ])("with a service account of %i characters is labelled with it: %s", (length, isLabelled) => {
    const endpoint = endpointOfPod(podOf({ serviceAccountName: "s".repeat(length) }));
    expect("projectcalico.org/serviceaccount" in endpoint.labels).toBe(isLabelled);
    expect(endpoint.profiles).toEqual(["kns.rec", `ksa.rec.${"s".repeat(length)}`]);
  });

  it("passes on what Multus says", () => {
    const annotations = { "k8s.v1.cni.cncf.io/network-status": '[{"name":"a"}]', other: "x" };
    expect(endpointOfPod(podOf({ annotations })).annotations).toEqual({ "k8s.v1.cni.cncf.io/network-status": '[{"name":"a"}]' });
  });

  it("has no name without a node (recording pod-unscheduled)", () => {
    expect(() => endpointOfPod(podOf({ nodeName: "" }))).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^error with field node \(field should be assigned\): pod rec\/pod1/) }),
    );
  });

  it("is one that others may see while the pod is scheduled and has a network of its own", () => {
    expect(isEndpointPod(podOf())).toBe(true);
    expect(isEndpointPod(podOf({ nodeName: "" }))).toBe(false);
    expect(isEndpointPod(podOf({ isHostNetwork: true }))).toBe(false);
  });
});

describe("the addresses of a pod", () => {
  it.each([
    ["status.podIPs first", podOf({ podIPs: ["10.1.0.1", "fd00::1"], podIP: "10.1.0.2" }), ["10.1.0.1/32", "fd00::1/128"]],
    ["status.podIP then", annotatedPod({ podIPs: "10.1.0.3/32", podIP: "10.1.0.3/32" }, { podIP: "10.1.0.2" }), ["10.1.0.2/32"]],
    ["podIPs then", annotatedPod({ podIPs: "10.1.0.3/32,fd00::3/128", podIP: "10.1.0.4/32" }), ["10.1.0.3/32", "fd00::3/128"]],
    ["podIP then", annotatedPod({ podIP: "10.1.0.4/32", podIPs: "" }), ["10.1.0.4/32"]],
    ["podIP without prefix length", annotatedPod({ podIP: "10.1.0.4" }), ["10.1.0.4/32"]],
    ["podIPs with and without it", annotatedPod({ podIPs: "10.1.0.4,FD00::0:4/128" }), ["10.1.0.4/32", "fd00::4/128"]],
    ["those of AWS last", podOf({ annotations: { [AWS]: "10.1.0.5,10.1.0.6" } }), ["10.1.0.5/32", "10.1.0.6/32"]],
    [
      "podIP before those of AWS",
      podOf({ annotations: { [AWS]: "10.1.0.5", "cni.projectcalico.org/podIP": "10.1.0.4/32" } }),
      ["10.1.0.4/32"],
    ],
    ["none", podOf({ annotations: { [AWS]: "", "cni.projectcalico.org/podIP": "", "cni.projectcalico.org/podIPs": "" } }), []],
  ])("are %s", (_, pod, expected) => {
    expect(endpointOfPod(pod).ipNetworks).toEqual(expected);
  });

  it.each([
    ["podIP", "1000.0.0.1", "invalid CIDR address: 1000.0.0.1"],
    ["podIPs", "10.0.0.1/32,nonsense", "invalid CIDR address: nonsense"],
    ["podIP", "10.0.0.1/33", "invalid CIDR address: 10.0.0.1/33"],
  ])("are refused when %s is %j (recording pod-bad-podip)", (name, value, message) => {
    expect(() => endpointOfPod(annotatedPod({ [name]: value }))).toThrow(
      expect.objectContaining({
        word: "annotation-invalid",
        message: `${message} (annotation cni.projectcalico.org/${name} of pod rec/pod1: ${JSON.stringify(value)})`,
      }),
    );
  });
});

describe("S11: a pod with a long list in its annotations", () => {
  it("has 64 addresses, and a problem that says so", () => {
    const podIPs = Array.from({ length: 20_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}/32`).join(",");
    const { endpoint, problems } = convertPod(annotatedPod({ podIPs }));
    expect(endpoint.ipNetworks.length).toBe(64);
    expect(problems.map(({ message }) => message)).toEqual([expect.stringContaining("only the first 64 addresses are read")]);
  });

  it("has no more problems than addresses are read", () => {
    const { problems } = convertPod(annotatedPod({ podIPs: "x,".repeat(100) }));
    expect(problems).toHaveLength(65);
  });

  it("has all of them while they are as many as that", () => {
    const { endpoint, problems } = convertPod(
      annotatedPod({ podIPs: Array.from({ length: 64 }, (_, index) => `10.0.0.${index}/32`).join(",") }),
    );
    expect([endpoint.ipNetworks.length, problems]).toEqual([64, []]);
  });
});

describe("a finished pod", () => {
  const addresses = { podIP: "10.1.0.1", podIPs: ["10.1.0.1"] };

  it.each([
    ["Succeeded", true],
    ["Failed", true],
    ["Completed", true],
    ["Running", false],
    ["Pending", false],
    ["Unknown", false],
  ])("in phase %s: %s", (phase, expected) => {
    const pod = podOf({ phase, ...addresses });
    expect(isFinished(pod)).toBe(expected);
    expect(endpointOfPod(pod).ipNetworks).toEqual(expected ? [] : ["10.1.0.1/32"]);
  });

  it.each([
    ["being deleted, after its DEL", annotatedPod({ podIP: "" }, { isDeleting: true, ...addresses }), true],
    ["being deleted, after AWS has taken its addresses", podOf({ isDeleting: true, annotations: { [AWS]: "" }, ...addresses }), true],
    ["being deleted, before its DEL", annotatedPod({ podIP: "10.1.0.1/32" }, { isDeleting: true, ...addresses }), false],
    ["being deleted, without annotations", podOf({ isDeleting: true, ...addresses }), false],
    ["not being deleted", annotatedPod({ podIP: "" }, addresses), false],
  ])("is one %s: %s", (_, pod, expected) => {
    expect(isFinished(pod)).toBe(expected);
    expect(convertPod(pod).endpoint.ipNetworks).toEqual(expected ? [] : ["10.1.0.1/32"]);
  });
});

describe("the ports of a pod", () => {
  const expectedPort = (change: object) => ({ name: "", protocol: "TCP", port: 80, hostPort: 0, hostIP: "", ...change });
  const onHost = { hostPort: 8080, hostIP: "127.0.0.1" };
  const known = ["TCP", "UDP", "SCTP"].map((protocol) => ({ name: protocol.toLowerCase(), protocol }));

  it.each<[string, readonly Partial<ContainerPort>[], readonly object[]]>([
    ["with a name or a port of the host", [{ name: "a" }, onHost, {}], [{ name: "a" }, onHost]],
    ["with a number", [{ name: "a", containerPort: 0 }], []],
    ["of a protocol that policy knows", [...known, { name: "x", protocol: "XYZ" }], known],
  ])("are those %s", (_, given, expected) => {
    expect(endpointOfPod(podOf({ ports: given.map(port) })).ports).toEqual(expected.map(expectedPort));
  });
});

describe("floating IPs of a pod as it stands", () => {
  const nats = (floatingIPs: string, podIPs: readonly string[]) => endpointOfPod(annotatedPod({ floatingIPs }, { podIPs })).ipNATs;

  it.each([
    ['["1.1.1.1"]', ["10.1.0.1"], [{ internalIP: "10.1.0.1", externalIP: "1.1.1.1" }]],
    [
      '["2001:647f::21", "1.1.1.1"]',
      ["10.1.0.1", "fd00::1"],
      [
        { internalIP: "fd00::1", externalIP: "2001:647f::21" },
        { internalIP: "10.1.0.1", externalIP: "1.1.1.1" },
      ],
    ],
    ['["2001:647f::21", "1.1.1.1"]', ["10.1.0.1"], [{ internalIP: "10.1.0.1", externalIP: "1.1.1.1" }]],
    ['["1.1.1.1"]', [], []],
    ["nonsense", [], []],
    ["", ["10.1.0.1"], []],
  ])("%s lead to %j: %j (C§3.3)", (text, podIPs, expected) => {
    expect(nats(text, podIPs)).toEqual(expected);
  });

  it("are refused when they cannot be read, once the pod has an address (recording del-bad-floatingips)", () => {
    expect(() => nats("nonsense", ["10.1.0.1"])).toThrow("failed to parse 'nonsense' as JSON: invalid character 'o' in literal null");
  });
});

describe("source prefixes of a pod", () => {
  it("lose their host bits", () => {
    const pod = annotatedPod({ allowedSourcePrefixes: '["8.8.8.8/32", "1.1.1.7/24"]' });
    expect(endpointOfPod(pod).allowSpoofedSourcePrefixes).toEqual(["8.8.8.8/32", "1.1.1.0/24"]);
  });

  it.each(['[""]', "nonsense", '["1.1.1.1"]'])("are refused when they are %s", (allowedSourcePrefixes) => {
    expect(() => endpointOfPod(annotatedPod({ allowedSourcePrefixes }))).toThrow(expect.objectContaining({ word: "annotation-invalid" }));
  });
});

describe("a pod whose annotations somebody broke", () => {
  const broken = annotatedPod({
    containerID: "cid1",
    podIPs: "10.1.0.1/32,nonsense",
    floatingIPs: "nonsense",
    allowedSourcePrefixes: "nonsense",
    hwAddr: "nonsense",
    ipAddrs: "nonsense",
  });

  it("still says whose it is and what it has (recordings del-bad-*)", () => {
    expect(convertPod(broken).endpoint).toMatchObject({ containerID: "cid1", ipNetworks: ["10.1.0.1/32"] });
  });

  it("is converted as far as it can be read, each problem with pod, annotation and value", () => {
    const { endpoint, problems } = convertPod(broken);
    expect(endpoint).toMatchObject({ containerID: "cid1", ipNetworks: ["10.1.0.1/32"], ipNATs: [], allowSpoofedSourcePrefixes: [] });
    expect(problems.map(({ message }) => /\(annotation cni\.projectcalico\.org\/(\w+) of pod rec\/pod1: /.exec(message)?.[1])).toEqual([
      "podIPs",
      "allowedSourcePrefixes",
      "floatingIPs",
    ]);
  });

  it("warns of limits that cannot be, and fails nothing (recording qos)", () => {
    const annotations = { "kubernetes.io/ingress-bandwidth": "nonsense", "qos.projectcalico.org/egressBandwidth": "1M" };
    const { endpoint, problems, warnings } = convertPod(podOf({ annotations }));
    expect(endpoint.qosControls).toEqual({ egressBandwidth: 1_000_000, egressBurst: 4_294_967_296 });
    expect(problems).toEqual([]);
    expect(warnings).toEqual(['annotation kubernetes.io/ingress-bandwidth is ignored: "nonsense" is no quantity']);
  });
});
