/** What routes between nodes are decided by, whatever store it comes from. */
import type { Address, Family, Prefix } from "../../lib/addresses/address.ts";

/** One value a family, where there is one. */
export type ByFamily<T> = Readonly<Partial<Record<Family, T>>>;

export const FAMILIES = [4, 6] as const satisfies readonly Family[];

/** The inner end of a node's VXLAN device. */
export interface TunnelEnd {
  readonly address: Address;
  /** Absent: the one that follows from the node's name. */
  readonly mac?: string;
}

export interface RoutedNode {
  readonly name: string;
  /** As it is recorded for Calico, with the prefix length of its subnet. */
  readonly recorded: ByFamily<Prefix>;
  /** As kubelet has found it. */
  readonly internal: ByFamily<Address>;
  readonly tunnels: ByFamily<TunnelEnd>;
  readonly labels: Readonly<Record<string, string>>;
  /** The node's own ranges (host scope). */
  readonly ranges: readonly Prefix[];
}

/** Where a node is reached. */
export function addressOf({ recorded, internal }: RoutedNode, family: Family): Address | undefined {
  return recorded[family]?.address ?? internal[family];
}

/** Addresses that lead to one node, all but those that are in use elsewhere. */
export interface RoutedBlock {
  readonly cidr: Prefix;
  /** Name of the node; absent: only its single addresses lead anywhere. */
  readonly owner?: string;
  /** Addresses that another node than the owner uses. */
  readonly borrowed: readonly { readonly address: Address; readonly node: string }[];
}

/** Which packets between nodes are put into others (I§2.7). */
export type Mode = "Always" | "CrossSubnet" | "Never";

export interface RoutedPool {
  readonly name: string;
  readonly cidr: Prefix;
  readonly vxlanMode: Mode;
  readonly ipipMode: Mode;
  readonly natOutgoing: boolean;
  /** New tunnel addresses may come from it. */
  readonly servesTunnels: boolean;
  readonly nodeSelector: string;
}

/** This node, as its kernel and its tunnels are. */
export interface OwnNode {
  readonly name: string;
  /** Its address with its subnet's prefix length, and the MTU of the link that has it. */
  readonly underlay: ByFamily<{ readonly address: Prefix; readonly mtu: number }>;
  /** Present: there is a VXLAN device of this family. */
  readonly tunnels: ByFamily<TunnelEnd>;
}

/** Everything that is known of the cluster at one moment. */
export interface ClusterView {
  readonly nodes: readonly RoutedNode[];
  readonly blocks: readonly RoutedBlock[];
  readonly pools: readonly RoutedPool[];
}
