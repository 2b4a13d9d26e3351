import { chooseDatastore } from "../../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";
import type { JsonObject } from "../../../../lib/json/value.ts";

describe("chooseDatastore", () => {
  it.each<[string, JsonObject, Record<string, string>, string]>([
    ["nothing at all", {}, {}, "local"],
    ["an empty datastore_type", { datastore_type: "" }, {}, "local"],
    ["datastore_type local", { datastore_type: "local", etcd_endpoints: "http://e" }, {}, "local"],
    ["datastore_type kubernetes", { datastore_type: "kubernetes" }, {}, "kubernetes"],
    ["datastore_type etcdv3", { datastore_type: "etcdv3" }, {}, "etcdv3"],
    ["DATASTORE_TYPE", {}, { DATASTORE_TYPE: "kubernetes" }, "kubernetes"],
    ["datastore_type over DATASTORE_TYPE", { datastore_type: "local" }, { DATASTORE_TYPE: "kubernetes" }, "local"],
    ["CALICO_DATASTORE_TYPE over datastore_type", { datastore_type: "local" }, { CALICO_DATASTORE_TYPE: "etcdv3" }, "etcdv3"],
    ["etcd_endpoints", { etcd_endpoints: "http://e" }, {}, "etcdv3"],
    ["etcd_discovery_srv", { etcd_discovery_srv: "example.org" }, {}, "etcdv3"],
    ["ETCD_ENDPOINTS", {}, { ETCD_ENDPOINTS: "http://e" }, "etcdv3"],
    ["CALICO_ETCD_ENDPOINTS", {}, { CALICO_ETCD_ENDPOINTS: "http://e" }, "etcdv3"],
    ["ETCD_DISCOVERY_SRV", {}, { ETCD_DISCOVERY_SRV: "example.org" }, "etcdv3"],
    ["etcd endpoints over a kubeconfig", { etcd_endpoints: "http://e", kubernetes: { kubeconfig: "/k" } }, {}, "etcdv3"],
    ["kubernetes.kubeconfig", { kubernetes: { kubeconfig: "/k" } }, {}, "kubernetes"],
    ["kubernetes.k8s_api_root", { kubernetes: { k8s_api_root: "https://a" } }, {}, "kubernetes"],
    ["policy.k8s_api_root", { policy: { k8s_api_root: "https://a" } }, {}, "kubernetes"],
    ["KUBECONFIG", {}, { KUBECONFIG: "/k" }, "kubernetes"],
    ["CALICO_KUBECONFIG", {}, { CALICO_KUBECONFIG: "/k" }, "kubernetes"],
    ["K8S_API_ENDPOINT", {}, { K8S_API_ENDPOINT: "https://a" }, "kubernetes"],
    ["an empty KUBECONFIG", {}, { KUBECONFIG: "" }, "local"],
    ["the variables of every container of Kubernetes", {}, { KUBERNETES_SERVICE_HOST: "10.0.0.1" }, "local"],
    ["an etcd key file alone", { etcd_key_file: "/k" }, {}, "local"],
  ])("with %s", (_what, netconf, env, expected) => {
    expect(chooseDatastore(decodeNetworkConfig(netconf), env)).toBe(expected);
  });

  it.each<[JsonObject, Record<string, string>]>([
    [{ datastore_type: "redis" }, {}],
    [{}, { DATASTORE_TYPE: "redis" }],
    [{ datastore_type: "local" }, { CALICO_DATASTORE_TYPE: "redis" }],
  ])("refuses an unknown type: %j, %j (recording datastore-wrong)", (netconf, env) => {
    expect(() => chooseDatastore(decodeNetworkConfig(netconf), env)).toThrow(
      expect.objectContaining({ word: "netconf-value", code: 999, message: "unknown datastore type: redis" }),
    );
  });
});
