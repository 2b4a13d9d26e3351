/**
 * What the judge has seen, and what should have been there. Everything comes from iproute2, nft, /proc and the store's raw rows: a defect of
 * our own netlink or decoding code must not hide itself.
 */

/** A link of one network namespace. The addresses are global ones, without their lengths. */
export interface SeenLink {
  readonly name: string;
  /** Empty when it has none. */
  readonly alias: string;
  /** Number in its namespace. */
  readonly index: number;
  /** Number of a veth's other end, in the namespace where that is; 0 for other links. */
  readonly peer: number;
  /** "default" unless somebody has put it into a group (ip-link(8)). */
  readonly group: string;
  readonly addresses: readonly string[];
}

/** What iproute2 calls "default" in either family. */
export const DEFAULT_ROUTES = { 4: "0.0.0.0/0", 6: "::/0" };

export interface SeenRoute {
  readonly destination: string;
  readonly device: string;
}

/** One network namespace; loopback and what the kernel makes by itself (link-local addresses, routes of its own) are left out. */
export interface SeenNamespace {
  readonly links: readonly SeenLink[];
  readonly routes: readonly SeenRoute[];
  /** net.ipv4.ip_forward */
  readonly isForwarding: boolean;
  /** `family name` of each nftables table. */
  readonly tables: readonly string[];
}

/** An address that the store holds for somebody. */
export interface SeenGrant {
  readonly address: string;
  /** Handle of its allocation; empty when it has none. */
  readonly handle: string;
}

/** The store's raw objects. */
export interface SeenStore {
  readonly grants: readonly SeenGrant[];
  /** CIDR of each IPAM block. */
  readonly blocks?: readonly string[];
  /** Handles that have an object of their own, → how many addresses they count. */
  readonly handles: ReadonlyMap<string, number>;
  /** `containerID ifname` of each workload endpoint. */
  readonly endpoints: readonly string[];
  /** Endpoints are annotations of pods, and a pod may be gone before its sandbox: nothing follows from a missing one. */
  readonly lacksEndpoints?: boolean;
}

export interface Seen {
  readonly host: SeenNamespace;
  /** Name of the sandbox → what is in it. Those that are gone are not there. */
  readonly sandboxes: ReadonlyMap<string, SeenNamespace>;
  readonly store: SeenStore;
  /** `sandbox to address` of each packet that had no answer. Nobody was asked to send one when absent. */
  readonly unanswered?: readonly string[];
}

/** An attachment that a runtime was told it has. */
export interface Wanted {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  readonly sandbox: string;
  /** As the ADD has answered, without lengths. */
  readonly addresses: readonly string[];
  /** Somebody changed the inside of the pod on purpose: its addresses and routes are its own business. */
  readonly isChangedInside?: boolean;
  /** Its link was taken from outside, and nobody can be asked to make it again. */
  readonly mayLackLink?: boolean;
  /** On another node with the same store: only its sandbox and its rows are looked at. */
  readonly isElsewhere?: boolean;
}

/** What may be there besides attachments: made by the test, or by the machine. */
export interface Allowed {
  /** `sandbox link`, with the sandbox empty for the host. They are somebody's: none may go. */
  readonly links: ReadonlySet<string>;
  /** Addresses that the test has given to such links, or to a pod on purpose. */
  readonly addresses: ReadonlySet<string>;
  /** `sandbox destination`. */
  readonly routes: ReadonlySet<string>;
  /** `family name` of nftables tables. */
  readonly tables: ReadonlySet<string>;
}

export interface Expected {
  readonly wanted: readonly Wanted[];
  readonly allowed: Allowed;
  /** The host forwards: an ADD has asked for it, and nobody has taken that back. */
  readonly isForwarding: boolean;
}

export const NOTHING_ALLOWED: Allowed = { links: new Set(), addresses: new Set(), routes: new Set(), tables: new Set() };

export const NO_STORE: SeenStore = { grants: [], handles: new Map(), endpoints: [] };
