import { exportedSettings } from "../../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../../../lib/config/decode.ts";

describe("Settings for an executed IPAM plugin", () => {
  it("are those of the network configuration, as recorded of Calico (spy-plain)", () => {
    const config = decodeNetworkConfig({
      name: "net1",
      datastore_type: "kubernetes",
      calico_api_group: "crd.projectcalico.org/v1",
      qps: 20,
      policy: { type: "k8s", k8s_auth_token: "secret" },
      kubernetes: { kubeconfig: "/etc/cni/net.d/calico-kubeconfig" },
    });
    expect(exportedSettings(config, "kubernetes")).toEqual({
      DATASTORE_TYPE: "kubernetes",
      KUBECONFIG: "/etc/cni/net.d/calico-kubeconfig",
      CALICO_API_GROUP: "crd.projectcalico.org/v1",
      K8S_CLIENT_QPS: "20",
    });
  });

  it("are none for the local datastore", () => {
    expect(exportedSettings(decodeNetworkConfig({ name: "net1", datastore_type: "local" }), "local")).toEqual({});
  });
});
