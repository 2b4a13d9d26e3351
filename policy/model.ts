/**
 * Describes what the policy engine is told and what it answers, as plain data. Addresses in here are proven: the sources (agent/policy/)
 * have judged whose they are.
 */
import type { ClassName, Direction, PolicyChange } from "../dataplane/packet-policy.ts";
import type { Address } from "../lib/addresses/address.ts";
import type { Fields } from "../lib/json/decode.ts";

export type Labels = Readonly<Record<string, string>>;

/** A named port of a container. */
export interface NamedPort {
  readonly name: string;
  /** "TCP", "UDP" or "SCTP". */
  readonly protocol: string;
  readonly port: number;
}

/** A pod as a peer, wherever it runs; "namespace/name" is its key. */
export interface PeerPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly addresses: readonly Address[];
  /** `undefined` where they are not known: only a policy that names a port in egress needs them. */
  readonly ports: readonly NamedPort[] | undefined;
}

/** The pod that policies select, on this node. */
export interface WorkloadPod extends Omit<PeerPod, "addresses"> {
  readonly ports: readonly NamedPort[];
}

/** An endpoint of this node, by the name of its host end. */
export interface LocalEndpoint {
  readonly addresses: readonly Address[];
  /** `undefined`: it is no pod of the cluster, and no policy selects it. */
  readonly pod: WorkloadPod | undefined;
}

/** A NetworkPolicy object as it was read; the engine validates it. Its key is "namespace/name". */
export interface PolicyObject {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** The object's `spec`, not validated. */
  readonly spec: Fields;
}

/** What events change, for the packet filter and for connections that run. */
export interface EngineChange extends PolicyChange {
  /** Addresses whose class is another one now, and that a pod had before: it may be allowed less. */
  readonly moved: readonly string[];
}

/** `default`: a direction is closed when a policy selects the endpoint in it; `always`: closed without a policy too; `never`: open. */
export type Enforcement = "default" | "always" | "never";

/** What is known of one policy. */
export interface PolicyStatus {
  /** "namespace/name". */
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** In which directions it closes what it selects. */
  readonly directions: readonly Direction[];
  /** Host ends of this node that it selects, sorted. */
  readonly endpoints: readonly string[];
  /** Why it is invalid: it closes what it selects and opens nothing; `undefined`: it is valid. */
  readonly problem: string | undefined;
}

/** A packet that begins a connection. `port` is the destination's; `undefined` for a protocol without ports. */
export interface Flow {
  readonly source: Address;
  readonly destination: Address;
  /** IP protocol number. */
  readonly protocol: number;
  readonly port: number | undefined;
  /** Named ports of the destination's pod, from whoever knows them where the engine does not. */
  readonly destinationPorts?: readonly NamedPort[] | undefined;
}

/** Names a rule: "rule 2 of egress in shop/web". `rule` counts from 1; 0: the policy has no rule that matches, it only closes. */
export interface RuleReference {
  /** "namespace/name". */
  readonly policy: string;
  readonly direction: Direction;
  readonly rule: number;
}

/** What one end's policies say of a flow. */
export interface SideJudgement {
  /** "namespace/name" of the pod, or the host end's name. */
  readonly workload: string;
  readonly direction: Direction;
  readonly verdict: "allow" | "deny";
  /** Policies that select the workload in this direction, sorted; empty: the direction is open. */
  readonly policies: readonly string[];
  /** The rule that decided; `undefined` where no rule matches or nothing selects the workload. */
  readonly decidedBy: RuleReference | undefined;
  /** Class of the other end on this node. */
  readonly peerClass: ClassName;
  /** The other end: "shop/web" or "203.0.113.7". */
  readonly peer: string;
  /** One sentence for an administrator: what decided, or what comes nearest and why it does not match. */
  readonly reason: string;
  /** A rule for the other end names a port, and the ports of the destination are not known: the verdict may be another. */
  readonly lacksPorts: boolean;
}

/** `undefined` for an end that is no pod, or whose policies are not known. */
export interface Judgement {
  readonly verdict: "allow" | "deny";
  readonly egress: SideJudgement | undefined;
  readonly ingress: SideJudgement | undefined;
}
