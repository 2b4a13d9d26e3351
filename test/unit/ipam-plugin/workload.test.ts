import { goTimestamp, mayHoldByLegacyHandle, parseGoTimestamp } from "../../../ipam-plugin/workload.ts";

describe("what a workload may release by its legacy handle", () => {
  const identity = { node: "node-a", endpoint: "eth0", namespace: "shop", pod: "web", containerId: "c1" };
  const ofPod = mayHoldByLegacyHandle({ ...identity, orchestrator: "k8s" });
  const ofContainer = mayHoldByLegacyHandle({ ...identity, orchestrator: "cni" });

  it.each<[string, Readonly<Record<string, string>>, boolean, boolean]>([
    ["nobody, as in early versions", {}, true, true],
    ["the pod", { node: "node-a", namespace: "shop", pod: "web" }, true, false],
    ["a pod of the same name elsewhere", { node: "node-a", namespace: "other", pod: "web" }, false, false],
    ["another pod of its namespace", { node: "node-a", namespace: "shop", pod: "api" }, false, false],
    ["a container without pod", { node: "node-a" }, false, true],
    ["a tunnel", { node: "node-a", type: "ipipTunnelAddress" }, false, false],
    ["a virtual machine", { namespace: "shop", pod: "web", "vmi-name": "vm" }, false, false],
  ])("of addresses whose owner is %s", (_owner, attributes, pods, containers) => {
    expect([ofPod(attributes), ofContainer(attributes)]).toEqual([pods, containers]);
  });
});

describe("a time as Go prints it", () => {
  it.each([
    [1_787_405_600_123_456_789n, "2026-08-22 13:33:20.123456789 +0000 UTC"],
    [1_787_405_600_500_000_000n, "2026-08-22 13:33:20.5 +0000 UTC"],
    [1_787_405_600_000_000_000n, "2026-08-22 13:33:20 +0000 UTC"],
    [1_787_405_600_000_000_001n, "2026-08-22 13:33:20.000000001 +0000 UTC"],
    [1_787_405_600_999_000_000n, "2026-08-22 13:33:20.999 +0000 UTC"],
  ])("drops the trailing zeros of the fraction: %p", (nanoseconds, text) => {
    expect(goTimestamp(nanoseconds)).toBe(text);
    expect(parseGoTimestamp(text)).toBe(Number(nanoseconds / 1_000_000n));
  });

  it.each([undefined, "", "yesterday", "2026-08-22T13:33:20Z", "2026-08-22 13:33:20 +0200 CEST", "2026-13-41 25:61:61 +0000 UTC"])(
    "is no time to be read: %p",
    (text) => expect(parseGoTimestamp(text)).toBeUndefined(),
  );
});
