/**
 * What a node must hold so that its pods and those of other nodes reach each other, as plain data: VXLAN devices with everything that is
 * known of the other ends, and routes. It is complete: anything of ours in the kernel beyond it is removed.
 */
import type { Address, Prefix } from "../lib/addresses/address.ts";

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
