/** Describes the nodes, pools and prefixes that routes between nodes are decided by, for every kind of store. */
import { type Address, bitsOf, covers, type Family, maskPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { Claimed } from "../../lib/system/claimed.ts";

/** One value a family, where there is one. */
export type ByFamily<T> = Readonly<Partial<Record<Family, T>>>;

export const FAMILIES = [4, 6] as const satisfies readonly Family[];

/** @param find the value of a family; `undefined` leaves the family out */
export function byFamily<T>(find: (family: Family) => T | undefined): ByFamily<T> {
  const found: Partial<Record<Family, T>> = {};
  for (const family of FAMILIES) {
    const value = find(family);
    if (value !== undefined) found[family] = value;
  }
  return found;
}

/** The inner end of a node's VXLAN device. */
export interface TunnelEnd {
  readonly address: Address;
  /** Absent: the one that follows from the node's name. */
  readonly mac?: string;
}

/** A node as its object describes it. What its own programs write there is a claim (design, invariant 17). */
export interface RoutedNode {
  readonly name: string;
  /** When the API server made the object: RFC 3339 in UTC, to be compared as text. */
  readonly createdAt: string;
  /** As it is recorded for Calico, with the prefix length of its subnet. */
  readonly recorded: ByFamily<Prefix>;
  /** As kubelet has found it. */
  readonly internal: ByFamily<Address>;
  readonly labels: Readonly<Record<string, string>>;
  /** `spec.podCIDRs`, which no node may write. */
  readonly given: readonly Prefix[];
  readonly claims: {
    /** Proof: a block that allocates the address to the node, or the node's proven range (`proofs.ts`). */
    readonly tunnels: ByFamily<Claimed<TunnelEnd>>;
    /** Proof: the range that the cluster gave the node, or disjointness from everything known (`proofs.ts`). */
    readonly ranges: ByFamily<Claimed<Prefix>>;
  };
}

/** A node with those of its claims that hold. */
export interface ProvenNode extends RoutedNode {
  readonly tunnels: ByFamily<TunnelEnd>;
  /** The node's own ranges (host scope). */
  readonly ranges: readonly Prefix[];
}

/** Says where a node is reached. */
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
  /** Nodes' addresses of other kinds than ends of tunnels are allocated, as those of pods are. */
  readonly isUsed: boolean;
  /** Addresses that are allocated as some node's end of a tunnel. */
  readonly tunnelEnds: readonly { readonly address: Address; readonly node: string }[];
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
  readonly isDeleting: boolean;
  readonly nodeSelector: string;
}

/** Finds the pool with the longest prefix that covers it; addresses of a deleted pool are in no pool. */
export function poolOf(cidr: Prefix, pools: readonly RoutedPool[]): RoutedPool | undefined {
  let best: RoutedPool | undefined;
  for (const pool of pools) {
    if (covers(pool.cidr, cidr) && (best === undefined || pool.cidr.length > best.cidr.length)) best = pool;
  }
  return best;
}

/** This node, as its kernel and its tunnels are. */
export interface OwnNode {
  readonly name: string;
  /** Its address with its subnet's prefix length, and the MTU of the link that has it. */
  readonly underlay: ByFamily<{ readonly address: Prefix; readonly mtu: number }>;
  /** Present: there is a VXLAN device of this family. */
  readonly tunnels: ByFamily<TunnelEnd>;
}

/** Everything that the cluster's store says at one moment. */
export interface ClusterClaims {
  readonly nodes: readonly RoutedNode[];
  /** Empty where addresses come from the nodes' ranges; so are the pools. */
  readonly blocks: readonly RoutedBlock[];
  readonly pools: readonly RoutedPool[];
}

/** What of it holds. */
export interface ClusterView extends ClusterClaims {
  readonly nodes: readonly ProvenNode[];
  /** Claims that were not believed, one sentence each. */
  readonly refused: readonly string[];
}

/** Defaults of FelixConfiguration `vxlanVNI` and `vxlanPort`. */
export const VNI = 4096;
export const PORT = 4789;

interface FamilyFacts {
  readonly device: string;
  /** Bytes around a packet: outer IP, UDP, VXLAN and inner Ethernet headers. */
  readonly overhead: number;
  /** Handle of the tunnel address and attribute `type` of it (I§2.4, I§2.5). */
  readonly handlePrefix: string;
  readonly attributeType: string;
  readonly macSuffix: string;
}

/**
 * VXLAN as Calico has it, so that nodes of either kind reach each other: names, numbers and MACs are not negotiated, both sides must
 * arrive at the same.
 */
export const VXLAN: Readonly<Record<Family, FamilyFacts>> = {
  4: {
    device: "vxlan.calico",
    overhead: 50,
    handlePrefix: "vxlan-tunnel-addr-",
    attributeType: "vxlanTunnelAddress",
    macSuffix: "",
  },
  6: {
    device: "vxlan-v6.calico",
    overhead: 70,
    handlePrefix: "vxlan-v6-tunnel-addr-",
    attributeType: "vxlanV6TunnelAddress",
    macSuffix: "-v6",
  },
};

/** First octet, "f" in ASCII: a MAC of local administration (IEEE 802, bit 0x02). */
const FIRST_OCTET = "66";
const OCTETS_OF_DIGEST = 5;

/** Computes the MAC of a node's VXLAN device, unless its Node object names another: "f" and five octets of the SHA-1 of the name. */
export function tunnelMac(node: string, family: Family): string {
  const digest = new Bun.CryptoHasher("sha1").update(node + VXLAN[family].macSuffix).digest("hex");
  const octets = Array.from({ length: OCTETS_OF_DIGEST }, (_, index) => digest.slice(2 * index, 2 * index + 2));
  return [FIRST_OCTET, ...octets].join(":");
}

/** Where the view of the cluster comes from: the port between the routes and the store that they are decided by. */
export interface RouteSources {
  /** Begins to follow; resolves when it has begun. @throws Error when the store cannot be asked; it may be called again */
  start(): Promise<void>;
  /** Why the claims must not be used: a list is incomplete, or changes are not being heard of. `undefined`: it may (design, invariant 14). */
  readonly gap: string | undefined;
  readonly claims: ClusterClaims;
  /** Calls the listener after changes that can make a difference to routes. */
  onChange(listener: () => void): void;
  /** Merges annotations into this node's object; `null` removes one. @throws Error */
  annotate(annotations: Readonly<Record<string, string | null>>): Promise<void>;
}

interface Entry<T> {
  readonly first: bigint;
  readonly last: bigint;
  readonly prefix: Prefix;
  readonly value: T;
}

/** Keeps prefixes that have no address in common, ordered by address: a cluster has hundreds, and each is compared with all. */
export class DisjointPrefixes<T> {
  /** In the order of their addresses. */
  readonly #entries: Readonly<Record<Family, Entry<T>[]>> = { 4: [], 6: [] };

  /** Adds a prefix; whoever comes first keeps its addresses. @returns the entry in the way, which stays alone; `undefined`: it was added */
  add(prefix: Prefix, value: T): { readonly prefix: Prefix; readonly value: T } | undefined {
    const { entries, at, found } = this.#look(prefix);
    if (found === undefined) entries.splice(at, 0, { ...boundsOf(prefix), prefix, value });
    return found;
  }

  /** Finds one that has addresses of `prefix`. */
  overlapping(prefix: Prefix): { readonly prefix: Prefix; readonly value: T } | undefined {
    return this.#look(prefix).found;
  }

  #look(prefix: Prefix) {
    const entries = this.#entries[prefix.address.family];
    const { first, last } = boundsOf(prefix);
    let [at, end] = [0, entries.length];
    while (at < end) {
      const middle = (at + end) >> 1;
      const entry = entries[middle];
      if (entry !== undefined && entry.last < first) at = middle + 1;
      else end = middle;
    }
    const next = entries[at];
    return { entries, at, found: next !== undefined && next.first <= last ? next : undefined };
  }
}

function boundsOf(prefix: Prefix): { readonly first: bigint; readonly last: bigint } {
  const first = maskPrefix(prefix).address.value;
  return { first, last: first + (1n << BigInt(bitsOf(prefix.address.family) - prefix.length)) - 1n };
}
