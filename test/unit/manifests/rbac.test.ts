/** The plugins' rights are those of C§8.2, no more and no less; the cluster suite asks a real server the same. */
import { pluginAccess } from "../../support/kubernetes/manifests.ts";

const CALICO = [
  "blockaffinities",
  "ipamblocks",
  "ipamhandles",
  "clusterinformations",
  "ippools",
  "ipreservations",
  "ipamconfigurations",
  "ipamconfigs",
];

describe("manifests/rbac.yaml", () => {
  const [account, role, binding, ...others] = pluginAccess();

  it("makes the service account that Calico's installer asks tokens for", () => {
    expect(account).toEqual({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: "calico-cni-plugin", namespace: "kube-system" },
    });
    expect(others).toEqual([]);
  });

  it("gives the role exactly the rules of C§8.2", () => {
    expect(role).toEqual({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: "calico-cni-plugin" },
      rules: [
        { apiGroups: [""], resources: ["pods", "nodes", "namespaces"], verbs: ["get"] },
        { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
        {
          apiGroups: ["projectcalico.org", "crd.projectcalico.org"],
          resources: CALICO,
          verbs: ["get", "list", "create", "update", "delete"],
        },
        { apiGroups: ["kubevirt.io"], resources: ["virtualmachineinstances", "virtualmachines"], verbs: ["get"] },
      ],
    });
  });

  it("binds the role to the account alone", () => {
    expect(binding).toEqual({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "calico-cni-plugin" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "calico-cni-plugin" },
      subjects: [{ kind: "ServiceAccount", name: "calico-cni-plugin", namespace: "kube-system" }],
    });
  });
});
