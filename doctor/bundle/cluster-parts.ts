/** Lists what a bug report holds of a node's objects in the API server. Secrets are never asked for. */
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { Part } from "./bundle.ts";

/** Objects of one list: a bundle is for people. */
const MOST = 500;

/** @param node its name; absent: all nodes, and no pods */
export function clusterParts(api: ApiClient, node: string | undefined): readonly Part[] {
  const list = (path: string, query = "") => `${path}?limit=${MOST}${query}`;
  const selector = (text: string) => `&fieldSelector=${encodeURIComponent(text)}`;
  const calico = "/apis/crd.projectcalico.org/v1";
  const system = "/api/v1/namespaces/kube-system";
  const paths: Readonly<Record<string, string>> = {
    version: "/version",
    nodes: node === undefined ? list("/api/v1/nodes") : `/api/v1/nodes/${node}`,
    pools: list(`${calico}/ippools`),
    affinities: list(`${calico}/blockaffinities`),
    blocks: list(`${calico}/ipamblocks`),
    "ipam-configuration": list(`${calico}/ipamconfigs`),
    "cluster-information": list(`${calico}/clusterinformations`),
    endpoints: list("/apis/tortie.dev/v1alpha1/tortieendpoints"),
    daemonset: "/apis/apps/v1/namespaces/kube-system/daemonsets/tortie-node",
    controller: "/apis/apps/v1/namespaces/kube-system/deployments/tortie-controller",
    configuration: `${system}/configmaps/tortie-config`,
    policies: list("/apis/networking.k8s.io/v1/networkpolicies"),
    events: list(`${system}/events`),
    ...(node !== undefined && {
      pods: list("/api/v1/pods", selector(`spec.nodeName=${node}`)),
      "node-events": list("/api/v1/events", selector("reason=FailedCreatePodSandBox")),
    }),
  };
  return Object.entries(paths).map(([name, path]) => ({
    path: `cluster/${name}.json`,
    read: async () => ({ json: JSON.parse(await api.request({ method: "GET", path })) }),
  }));
}
