/**
 * What the node itself must hold for all attachments together, as plain data: what no attachment owns, and none takes away. Applied
 * again by every ADD of a node that has no Felix beside it; a state that is there already costs one question.
 */
import type { Address, Family, Prefix } from "../lib/addresses/address.ts";

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

/** The other end of a tunnel. */
export interface VxlanPeer {
  /** Where encapsulated packets are sent. */
  readonly node: Address;
  /** Next hop of the routes through the tunnel. */
  readonly address: Address;
  /** Of the device there; lower case with colons. */
  readonly mac: string;
}

/** One VXLAN device. Nothing is learned or asked on it: all peers are known. */
export interface VxlanTunnel {
  readonly name: string;
  /** VXLAN network identifier. */
  readonly vni: number;
  /** UDP port of both ends. */
  readonly port: number;
  readonly mac: string;
  readonly mtu: number;
  /** The node's own address, of some link of the host: where encapsulated packets come from. */
  readonly local: Address;
  /** The node's own address inside the tunnel: source of what the host itself sends through it. */
  readonly address: Address;
  readonly peers: readonly VxlanPeer[];
}

export type NodeRoute = { readonly destination: Prefix } & (
  | { readonly kind: "direct"; readonly gateway: Address }
  /**
   * `device`: name of one of the tunnels. The gateway counts as a neighbour there; with IPv6 only if no route leads to it through another
   * link (net/ipv6/route.c, ip6_route_check_nh_onlink), which is what a route without gateway, to the gateway alone, is for.
   */
  | { readonly kind: "tunnel"; readonly gateway?: Address; readonly device: string }
  /** For unassigned addresses of this node: packets to them must not leave by the default route and come back. */
  | { readonly kind: "blackhole" }
);

/**
 * What a node must hold so that its pods and those of other nodes reach each other, as plain data: VXLAN devices with everything that is
 * known of the other ends, and routes. It is complete: anything of ours in the kernel beyond it is removed.
 */
export interface NodeNetwork {
  readonly tunnels: readonly VxlanTunnel[];
  /** Made in this order. */
  readonly routes: readonly NodeRoute[];
}

/** What became of a `NodeNetwork`. */
export interface NetworkReport {
  /** What was wrong and has been corrected; one phrase each. */
  readonly changed: readonly string[];
  /** What could not be made, and why: something foreign in its place, or a refusal of the kernel; one sentence each. */
  readonly failed: readonly string[];
}

/** Mark of a device that is ours; unlike the alias of a host end it names no attachment. */
export const TUNNEL_ALIAS = "tortie-node vxlan";
