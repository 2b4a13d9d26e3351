/**
 * What the Tigera operator makes for Calico's plugins (tigera/operator, pkg/render/node.go): their account is in calico-system, not in
 * kube-system, and a finalizer keeps account, role and binding until the last node's plugins are gone.
 */
import type { ApiObject } from "../../support/kubernetes/resources.ts";

const FINALIZERS = ["tigera.io/cni-protector"];
const NAME = "calico-cni-plugin";
const GROUPS = ["projectcalico.org", "crd.projectcalico.org"];
const IPAM = ["blockaffinities", "ipamblocks", "ipamhandles", "ipamconfigurations", "ipamconfigs"];
const READ = ["clusterinformations", "ippools", "ipreservations"];

export const OPERATOR_NAMESPACES = ["tigera-operator", "calico-system"] as const;

export const OPERATOR_OBJECTS: readonly ApiObject[] = [
  { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: NAME, namespace: "calico-system", finalizers: FINALIZERS } },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    metadata: { name: NAME, finalizers: FINALIZERS },
    rules: [
      { apiGroups: [""], resources: ["pods", "nodes", "namespaces"], verbs: ["get"] },
      { apiGroups: [""], resources: ["pods/status"], verbs: ["patch"] },
      { apiGroups: GROUPS, resources: [...IPAM, ...READ], verbs: ["get", "list", "create", "update", "delete"] },
      { apiGroups: ["kubevirt.io"], resources: ["virtualmachineinstances", "virtualmachines"], verbs: ["get"] },
    ],
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: NAME, finalizers: FINALIZERS },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: NAME },
    subjects: [{ kind: "ServiceAccount", name: NAME, namespace: "calico-system" }],
  },
];

/** The list that calico-node's installer has placed, and its kubeconfig. */
export const CALICO_LIST = JSON.stringify({
  name: "k8s-pod-network",
  cniVersion: "0.3.1",
  plugins: [
    {
      type: "calico",
      datastore_type: "kubernetes",
      mtu: 0,
      nodename_file_optional: false,
      log_file_path: "/var/log/calico/cni/cni.log",
      ipam: { type: "calico-ipam", assign_ipv4: "true", assign_ipv6: "false" },
      container_settings: { allow_ip_forwarding: false },
      policy: { type: "k8s" },
      kubernetes: { kubeconfig: "/etc/cni/net.d/calico-kubeconfig" },
    },
    { type: "portmap", snat: true, capabilities: { portMappings: true } },
  ],
});
