/**
 * What the node itself must hold for all attachments together, as plain data: what no attachment owns, and none takes away. Applied
 * again by every ADD of a node that has no Felix beside it; a state that is there already costs one question.
 */
import type { Family, Prefix } from "../lib/addresses/address.ts";
import type { NodeNetwork } from "./node-network.ts";

/** Traffic of the pods that leaves with the node's address. */
export interface Masquerading {
  /** Letters and digits that stand for the datastore of the pools: each datastore has its own part, and replaces that part only. */
  readonly store: string;
  /** Pools whose traffic is masqueraded. */
  readonly outgoing: readonly Prefix[];
  /** Every pool: traffic to them keeps its source. */
  readonly pools: readonly Prefix[];
}

export interface NodeState {
  /** Families that the node forwards. Switched on, never off: others may need it too. */
  readonly forwardedFamilies: readonly Family[];
  /** Absent: the caller knows of no pools, and what the kernel has for them stays as it is. */
  readonly masquerading?: Masquerading;
  /**
   * Name prefixes of the host ends whose containers must not open connections to the node's loopback addresses, nor send from addresses
   * that are not theirs. `route_localnet` would let such connections in (CVE-2020-8558; in a cluster kubelet's KUBE-FIREWALL chain drops
   * them), and without Felix no other program checks sources.
   */
  readonly guardedPrefixes: readonly string[];
  /** Absent: the caller knows nothing of other nodes, and what the kernel has for them stays as it is. */
  readonly network?: NodeNetwork;
}

/** Nothing is wanted of this node. */
export const NO_NODE_STATE: NodeState = { forwardedFamilies: [], guardedPrefixes: [] };
