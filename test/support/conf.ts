/** Network configurations that tests start from. */
import type { Node } from "./node.ts";

const POOL4 = "10.244.0.0/16";
const POOL6 = "fd44::/48";

/** A complete configuration of the main plugin on the node's own local datastore; members of `change` replace it key by key. */
export function localConf(node: Node, change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    cniVersion: "1.0.0",
    name: "net1",
    type: "tortie",
    datastore_type: "local",
    datastore_path: node.datastorePath,
    ipam_lock_file: `${node.dir}/ipam.lock`,
    nodename: "node1",
    ipam: dualIpam("4"),
    ...change,
  };
}

/** The `ipam` section for IPv4 ("4"), IPv6 ("6") or both ("46"). */
export function dualIpam(families: "4" | "6" | "46", change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    type: "tortie-ipam",
    pools: [{ cidr: POOL4 }, { cidr: POOL6 }],
    assign_ipv4: String(families.includes("4")),
    assign_ipv6: String(families.includes("6")),
    ...change,
  };
}

/** CNI_ARGS as kubelet sends them. */
export function podArgs(pod: string, namespace = "default", containerId = "cid1"): string {
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${pod};K8S_POD_INFRA_CONTAINER_ID=${containerId};K8S_POD_UID=u`;
}
