import {
  type EndpointIdentifiers,
  matchesEndpointName,
  parseWorkloadEndpointName,
  workloadEndpointName,
  workloadEndpointNamePrefix,
} from "../../../../lib/workload/names.ts";

const NONE: EndpointIdentifiers = { node: "", orchestrator: "", pod: "", containerId: "", endpoint: "" };
const POD: EndpointIdentifiers = { ...NONE, node: "node-1", orchestrator: "k8s", pod: "pod-name", endpoint: "eth0" };
const PLAIN: EndpointIdentifiers = { ...NONE, node: "node-1", orchestrator: "cni", containerId: "abcdefa0123456", endpoint: "eth0" };

describe("workloadEndpointName", () => {
  it.each<[string, EndpointIdentifiers]>([
    ["node--1-k8s-pod--name-eth0", POD],
    ["node--1-cni-abcdefa0123456-eth0", PLAIN],
    ["node--1-libnetwork-libnetwork-ep", { ...NONE, node: "node-1", orchestrator: "libnetwork", endpoint: "ep" }],
    ["node--1-other-w--l-ep", { ...NONE, node: "node-1", orchestrator: "other", workload: "w-l", endpoint: "ep" }],
    ["n-k8s-a----b-eth0", { ...POD, node: "n", pod: "a--b" }],
  ])("makes %s", (name, identifiers) => {
    expect(workloadEndpointName(identifiers)).toBe(name);
  });

  it.each<[Partial<EndpointIdentifiers>, string]>([
    [{ node: "" }, "node (field should be assigned)"],
    [{ orchestrator: "" }, "orchestrator (field should be assigned)"],
    [{ pod: "" }, "pod (field should be assigned)"],
    [{ endpoint: "" }, "endpoint (field should be assigned)"],
    [{ orchestrator: "cni" }, "containerID (field should be assigned)"],
    [{ orchestrator: "other" }, "workload (field should be assigned)"],
    [{ pod: "-web" }, "pod = '-web' (field must not begin with a '-')"],
    [{ endpoint: "-eth" }, "endpoint = '-eth' (field must not begin with a '-')"],
    [{ endpoint: "eth-" }, "endpoint = 'eth-' (field must not end with a '-')"],
    [{ node: "-" }, "node = '-' (field must not begin with a '-')"],
    [{ orchestrator: "cni", containerId: "c1-" }, "containerID = 'c1-' (field must not end with a '-')"],
  ])("names the field that is wrong in %j (recordings args-12, env-container-dash, env-values)", (change, problem) => {
    expect(() => workloadEndpointName({ ...POD, ...change })).toThrow(
      expect.objectContaining({
        word: "identity-invalid",
        code: 999,
        message: `error constructing WorkloadEndpoint name: error with field ${problem}`,
      }),
    );
  });
});

describe("workloadEndpointNamePrefix", () => {
  it.each<[string, Partial<EndpointIdentifiers>]>([
    ["node--1-k8s-pod--name-", { endpoint: "" }],
    ["node--1-k8s-", { pod: "" }],
    ["node--1-", { orchestrator: "" }],
    ["node--1-k8s-pod--name-eth0", {}],
  ])("makes %s", (prefix, change) => {
    expect(workloadEndpointNamePrefix({ ...POD, ...change })).toBe(prefix);
  });

  it("needs the node", () => {
    expect(() => workloadEndpointNamePrefix({ ...POD, node: "" })).toThrow(
      "error constructing WorkloadEndpoint prefix: error with field node (field should be assigned)",
    );
  });

  it("refuses a dash at either end like a name", () => {
    expect(() => workloadEndpointNamePrefix({ ...POD, pod: "x-", endpoint: "" })).toThrow("pod = 'x-' (field must not end with a '-')");
  });
});

describe("parseWorkloadEndpointName", () => {
  it.each([
    ["node--1-k8s-pod--name-eth0", { node: "node-1", orchestrator: "k8s", workload: "pod-name", endpoint: "eth0" }],
    ["node--1-cni-abc-eth0", { node: "node-1", orchestrator: "cni", workload: "abc", endpoint: "eth0" }],
    ["node1-k8s-mypod-", { node: "node1", orchestrator: "k8s", workload: "mypod", endpoint: "" }],
    ["node1", { node: "node1", orchestrator: "", workload: "", endpoint: "" }],
    ["", { node: "", orchestrator: "", workload: "", endpoint: "" }],
    ["n-k8s-a----b-eth0", { node: "n", orchestrator: "k8s", workload: "a--b", endpoint: "eth0" }],
    ["-n-k8s-p-e", { node: "-n", orchestrator: "k8s", workload: "p", endpoint: "e" }],
  ])("takes %j apart", (name, parts) => {
    expect(parseWorkloadEndpointName(name)).toEqual(parts);
  });

  it("refuses more than four segments (C§11.5)", () => {
    expect(parseWorkloadEndpointName("calico-kube-controllers-7946b84856-2fwwq")).toBeUndefined();
  });

  it("gives back what a name was made of", () => {
    for (const pod of ["a", "a-b", "a--b", "a.b", "a---b", "x-1-y-2"]) {
      expect(parseWorkloadEndpointName(workloadEndpointName({ ...POD, pod }))).toMatchObject({ node: "node-1", workload: pod });
    }
  });
});

describe("matchesEndpointName", () => {
  it("tells a pod from one whose name begins alike, which the prefix lists too (C§7.2)", () => {
    const pod = { ...POD, node: "node1", pod: "mypod", endpoint: "" };
    expect("node1-k8s-mypod--1-eth0".startsWith(workloadEndpointNamePrefix(pod))).toBe(true);
    expect(matchesEndpointName("node1-k8s-mypod--1-eth0", pod)).toBe(false);
    expect(matchesEndpointName("node1-k8s-mypod-eth0", pod)).toBe(true);
    expect(matchesEndpointName("node1-k8s-mypod-eth1", pod)).toBe(true);
  });

  it.each<[string, Partial<EndpointIdentifiers>]>([
    ["another node", { node: "node2" }],
    ["another orchestrator", { orchestrator: "cni", containerId: "pod-name" }],
    ["another pod", { pod: "other" }],
    ["another endpoint", { endpoint: "eth1" }],
  ])("is false for %s", (_what, change) => {
    expect(matchesEndpointName("node--1-k8s-pod--name-eth0", { ...POD, ...change })).toBe(false);
  });

  it("wants four segments", () => {
    expect(matchesEndpointName("node--1-k8s-pod--name", { ...POD, endpoint: "" })).toBe(false);
    expect(matchesEndpointName("node--1-k8s-pod--name-eth0-x", { ...POD, endpoint: "" })).toBe(false);
  });
});
