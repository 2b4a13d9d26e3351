/**
 * Describes what the packet filter must hold so that policy is enforced on this node, as plain data. The policy engine computes it,
 * `dataplane/nftables/policy/` makes the kernel hold it, tests build it by hand. Nothing here knows Kubernetes or labels.
 *
 * The key is the peer class, not the address: many addresses share a class, and a class has the same permissions everywhere on this node.
 */
import type { Address, Family } from "../lib/addresses/address.ts";

/**
 * Names a class: the set of predicates (peer selectors and address blocks of the policies in force on this node) that an address
 * satisfies. Twelve hex digits that follow from the set alone, so that a restarted agent finds its own chains again. `NO_PREDICATE` names
 * the empty set.
 */
export type ClassName = string;

/** The class of an address that no predicate mentions. */
export const NO_PREDICATE: ClassName = "000000000000";

/** Says in which direction an endpoint is asked: packets to it, or packets from it. */
export type Direction = "ingress" | "egress";

/** Allows one protocol and an interval of ports, both ends included. */
export interface AllowedPorts {
  /** IP protocol number: 6 TCP, 17 UDP, 132 SCTP. */
  readonly protocol: number;
  readonly first: number;
  readonly last: number;
}

/** Lists what is allowed, sorted by protocol and port, disjoint, not empty; "all" includes every other protocol too. */
export type Permission = "all" | readonly AllowedPorts[];

/** What an endpoint allows each class. A class that is missing is allowed nothing. */
export type Permissions = ReadonlyMap<ClassName, Permission>;

export interface EndpointPolicy {
  /** Addresses of the endpoint itself: what it sends to itself through a Service passes. */
  readonly addresses: readonly Address[];
  /** `undefined`: packets to it are not judged. */
  readonly ingress: Permissions | undefined;
  /** `undefined`: packets from it are not judged. */
  readonly egress: Permissions | undefined;
}

/** Tells whether packets of the endpoint are judged in any direction. */
export function isEnforced({ ingress, egress }: EndpointPolicy): boolean {
  return ingress !== undefined || egress !== undefined;
}

/** An interval of addresses of one family, both ends included. */
export interface AddressInterval {
  readonly family: Family;
  readonly first: bigint;
  readonly last: bigint;
  readonly class: ClassName;
}

export interface PacketPolicy {
  /** By the name of the host end. A host end of ours that is not listed is closed but for its own host. */
  readonly endpoints: ReadonlyMap<string, EndpointPolicy>;
  /**
   * Class of each pod's address that a predicate mentions, by the address as text (`formatAddress`); looked up before the blocks. The others
   * are in no block, and so of class `NO_PREDICATE`.
   */
  readonly addresses: ReadonlyMap<string, ClassName>;
  /** Disjoint, sorted by family and address. An address in none of them is of class `NO_PREDICATE`. */
  readonly blocks: readonly AddressInterval[];
}

/** What changed since the last change was taken. `undefined` as a value: gone. */
export interface PolicyChange {
  readonly endpoints: ReadonlyMap<string, EndpointPolicy | undefined>;
  readonly addresses: ReadonlyMap<string, ClassName | undefined>;
  /** The whole new list; `undefined`: unchanged. */
  readonly blocks: readonly AddressInterval[] | undefined;
}
