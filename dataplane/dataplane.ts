/**
 * Declares the port between the plan of an attachment and whatever makes it true, with what a node must hold for all attachments, as plain
 * data. Linux is behind it; eBPF has room beside it.
 *
 * Any number of calls may run at once in one process. None waits for the kernel with the thread blocked.
 */

import type { Address, Family, Prefix } from "../lib/addresses/address.ts";
import type { Sandbox } from "../lib/system/sandbox.ts";
import type { AttachmentName } from "./alias.ts";
import type { DesiredState, Difference } from "./desired-state.ts";

export interface Dataplane {
  /**
   * Makes the kernel hold `desired`. A failed call leaves nothing behind; disposing of the returned link removes it.
   * @throws TortieError naming the object that could not be made; `netns-changed`
   */
  apply(sandbox: Sandbox, desired: DesiredState): Promise<AppliedLink>;
  /**
   * Compares the kernel with `desired` and names every difference that breaks the attachment; empty when all is well. Changes nothing.
   * Settings that an administrator or a chained plugin may change (sysctls, queues, and MAC and MTU but for `recorded`) are not compared.
   */
  inspect(sandbox: Sandbox, desired: DesiredState, recorded?: RecordedLink): Promise<readonly Difference[]>;
  /**
   * Names what differs of a pair that was made earlier: the host end with its settings, which only Tortie changes, or the pair as a whole
   * (`lacksPair`). What differs inside the sandbox is the container's own business.
   */
  drift(sandbox: Sandbox, recorded: RecordedPair): Promise<readonly Difference[]>;
  /**
   * Takes the differences of a host end away, and touches nothing where nothing differs. A pair that is gone is left to `apply`, which
   * needs addresses; an end that is not provably this attachment's is left alone.
   */
  mend(sandbox: Sandbox, recorded: RecordedPair): Promise<Mending>;
  /** Removes one link. A link that is gone counts as removed (C§4.7); a link that is not provably the attachment's stays. */
  remove(link: AttachedLink | LinkOfAttachment): Promise<Removal>;
  /** Attachment that the alias of a link of this host names; `undefined` where there is no such link, or no readable alias of Tortie's. */
  ownerOf(hostInterface: string): Promise<AttachmentName | undefined>;
  /** Lists the links of this host that carry a readable alias of Tortie's, and those whose creation was interrupted. */
  list(): Promise<readonly AttachedLink[]>;
  /**
   * Makes the node hold `state`. Host ends are guarded only from then on, so it comes before a container can send.
   * @returns what became of its `network`; `undefined` where it has none
   */
  applyNode(state: NodeState): Promise<NetworkReport | undefined>;
}

/** Represents the link of an attachment that was just made. Disposing of it removes both ends, with addresses and routes. */
export interface AppliedLink extends AsyncDisposable {
  /** MAC of the pod end, lower case with colons. */
  readonly podMac: string;
  /** Identifies the host end; the kernel gives it to no other link of this namespace while the link exists. */
  readonly hostIndex: number;
  /** "veth" when the kernel has no netkit. */
  readonly kind: "veth" | "netkit";
  /** Non-fatal failures, one sentence each. */
  readonly warnings: readonly string[];
}

/** Describes a pair that was made earlier, as its record has it. */
export interface RecordedPair {
  readonly desired: DesiredState;
  /** Index of the host end; `undefined` in a record that was written before the link was made. */
  readonly hostIndex?: number | undefined;
}

export interface Mending {
  readonly mended: readonly Difference[];
  /** What still differs: the kernel or another program does not let it be mended. */
  readonly left: readonly Difference[];
}

/** Has what a result says about the pod end, after whatever other plugins did to it. */
export interface RecordedLink {
  readonly mac?: string | undefined;
  readonly mtu?: number | undefined;
}

/** Link of an attachment that ends, by its names. */
export interface LinkOfAttachment {
  /** Empty: the call does not say of what it is made. The owner's alias finds the link then, as where it was renamed. */
  readonly hostInterface: string;
  readonly owner: AttachmentName;
  /** The host end is also removed where `apply` would replace it for an attachment with these predecessors. */
  readonly predecessors?: readonly string[];
  /**
   * Whether the workload's record names this container: the proof for a host end of this name without an alias, as Calico makes them.
   * Asked only then; absent: nobody can be asked.
   */
  readonly isRecorded?: () => Promise<boolean>;
  /** Path of the sandbox that a DEL names: the proof for a link that a killed ADD has left unfinished. */
  readonly netns?: string;
}

/** Describes a link as `list` found it. */
export interface AttachedLink {
  readonly hostInterface: string;
  readonly index: number;
  /** Absent: the link is unfinished. A killed process leaves such a link; a running ADD has one for a millisecond. */
  readonly owner?: AttachmentName;
}

export interface Removal {
  /** Alias of a link that has the name and was left alone: another attachment's, or nobody's that can be proven. */
  readonly keptFor?: string;
}

/** Describes traffic of the pods that leaves with the node's address. */
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

/** Wants nothing of this node. */
export const NO_NODE_STATE: NodeState = { forwardedFamilies: [], guardedPrefixes: [] };

/** Describes the other end of a tunnel. */
export interface VxlanPeer {
  /** Receives encapsulated packets. */
  readonly node: Address;
  /** Next hop of the routes through the tunnel. */
  readonly address: Address;
  /** Belongs to the device there; lower case with colons. */
  readonly mac: string;
}

/** Describes one VXLAN device. Nothing is learned or asked on it: all peers are known. */
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
 * Describes what a node must hold so that its pods and those of other nodes reach each other, as plain data: VXLAN devices with everything
 * that is known of the other ends, and routes. It is complete: anything of ours in the kernel beyond it is removed.
 */
export interface NodeNetwork {
  readonly tunnels: readonly VxlanTunnel[];
  /** Lists the routes in the order in which they are made. */
  readonly routes: readonly NodeRoute[];
  /** Families whose tunnels and routes stay as the kernel has them: the node's address is missing for a moment. The guards count still. */
  readonly held?: readonly Family[];
}

/** Tells what became of a `NodeNetwork`. */
export interface NetworkReport {
  /** What was wrong and has been corrected; one phrase each. */
  readonly changed: readonly string[];
  /** What could not be made, and why: something foreign in its place, or a refusal of the kernel; one sentence each. */
  readonly failed: readonly string[];
  /** Number of our routes that the kernel has now. */
  readonly routes: number;
  /** Routes and rules of other programs that take the packets; one sentence each. */
  readonly foreign: readonly string[];
}

/** Marks a device that is ours; unlike the alias of a host end it names no attachment. */
export const TUNNEL_ALIAS = "tortie-node vxlan";
