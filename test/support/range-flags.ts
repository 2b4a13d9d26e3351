import type { NodeCidrFlags } from "../../agent/addresses/ranges/options.ts";

/** Flags of an agent that chooses its node's ranges by itself, in both families. */
export const RANGE_FLAGS: NodeCidrFlags = {
  "enable-ipv4": true,
  "enable-ipv6": true,
  "ipv4-range": "auto",
  "ipv6-range": "auto",
  "ipv4-node": "auto",
  "ipv6-node": "auto",
  "require-ipv4-pod-cidr": false,
  "require-ipv6-pod-cidr": false,
  "ipv6-cluster-alloc-cidr": "f00d::/64",
  "read-cilium-annotations": false,
  "cluster-cidr": "",
};
