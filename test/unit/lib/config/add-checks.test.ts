import { checkFeaturesForPlainContainer, checkForAdd } from "../../../../lib/config/add-checks.ts";
import type { DatastoreType } from "../../../../lib/config/decode.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import type { JsonObject } from "../../../../lib/json/value.ts";

describe("checkForAdd", () => {
  it.each<[JsonObject, DatastoreType]>([
    [{}, "local"],
    [{ agent: "off", agent_wait_seconds: 200, agent_timeout_seconds: 2 }, "local"],
    [{ agent_timeout_seconds: 115, ipam_lock_timeout_seconds: 115 }, "local"],
    [{ ipam_lock_timeout_seconds: 1 }, "local"],
    [{ ipam_lock_timeout_seconds: 0 }, "local"],
    [{ device_type: "veth" }, "local"],
    [{ device_type: "netkit" }, "local"],
    [{ dataplane_options: {} }, "local"],
    [{ dataplane_options: { type: null, x: 1 } }, "local"],
    [{ readiness_gates: ["http://127.0.0.1:9099/readiness", "https://[::1]/"] }, "local"],
    [{ policy_setup_timeout_seconds: 30 }, "local"],
    [{ policy: { type: "other" } }, "local"],
    [{ policy: { type: "k8s" } }, "kubernetes"],
    [{ policy: { type: "k8s" }, ipam: { pools: [{ cidr: "rubbish" }] } }, "kubernetes"],
  ])("takes %j with the %s datastore", (netconf, datastore) => {
    expect(() => checkForAdd(decodeNetworkConfig(netconf), datastore)).not.toThrow();
  });

  it.each<[JsonObject, string]>([
    [{ agent_timeout_seconds: 1 }, "agent_timeout_seconds must be 2 to 115, not 1"],
    [{ agent_timeout_seconds: 116 }, "agent_timeout_seconds must be 2 to 115, not 116"],
    [{ ipam_lock_timeout_seconds: -1 }, "ipam_lock_timeout_seconds must be 1 to 115, not -1"],
    [{ ipam_lock_timeout_seconds: 116 }, "ipam_lock_timeout_seconds must be 1 to 115, not 116"],
  ])("seven:7: says the limits of a time: %j", (netconf, message) => {
    expect(() => checkForAdd(decodeNetworkConfig(netconf), "local")).toThrow(message);
  });

  it.each<[JsonObject, string]>([
    [{ agent: "auto" }, 'agent must be "require" (tortie-node serves this node) or "off" (the plugins do, as without the key), not "auto"'],
    [{ agent_wait_seconds: 201 }, "agent_wait_seconds must be 0 to 200, not 201"],
    [{ device_type: "bogus" }, 'unknown device_type "bogus" in CNI config (supported: "veth", "netkit")'],
    [{ device_type: "VETH" }, 'unknown device_type "VETH"'],
    [{ dataplane_options: { type: "bogus" } }, "invalid dataplane type: bogus"],
    [{ dataplane_options: { type: 5 } }, "invalid dataplane type: dataplane_options.type must be a string, not 5"],
    [{ dataplane_options: { type: "grpc", socket: "unix:///s" } }, 'dataplane_options.type "grpc" is not supported'],
    [{ readiness_gates: ["http://x/", "nonsense"] }, 'invalid URL set for ReadinessGates: "nonsense"'],
    [{ readiness_gates: ["/readiness"] }, "invalid URL set for ReadinessGates"],
    [{ readiness_gates: ["file:///etc/passwd"] }, "invalid URL set for ReadinessGates"],
    [{ readiness_gates: [null] }, 'invalid URL set for ReadinessGates: ""'],
    [{ policy_setup_timeout_seconds: -1 }, "invalid pod startup delay of -1"],
    [{ policy: { type: "k8s" } }, "policy.type k8s needs a Kubernetes API server, but the datastore is local"],
    [{ ipam: { pools: [{ cidr: "rubbish" }] } }, "ipam.pools[0].cidr"],
    [{ ipam: { type: "azure-vnet-ipam" } }, 'ipam.type "azure-vnet-ipam" is not supported'],
  ])("refuses %j", (netconf, message) => {
    expect(() => checkForAdd(decodeNetworkConfig(netconf), "local")).toThrow(
      expect.objectContaining({ word: "netconf-value", code: 999, message: expect.stringContaining(message) }),
    );
  });
});

describe("checkFeaturesForPlainContainer", () => {
  it("refuses ip_addrs_no_ipam, which only pods can use (recording etcd-noipam-flag)", () => {
    expect(() => checkFeaturesForPlainContainer(decodeNetworkConfig({ feature_control: { ip_addrs_no_ipam: true } }))).toThrow(
      "requested feature is not supported for this runtime: ip_addrs_no_ipam",
    );
    expect(() => checkFeaturesForPlainContainer(decodeNetworkConfig({ feature_control: { floating_ips: true } }))).not.toThrow();
  });
});
