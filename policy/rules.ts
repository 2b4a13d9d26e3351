/**
 * The form into which every kind of policy is translated: tiers of ordered rules that allow, deny, or pass to the next tier. NetworkPolicy
 * is one tier whose rules all allow. Nothing here knows how a kind of policy is written.
 */
import type { AllowedPorts, Direction } from "../dataplane/packet-policy.ts";
import { formatPrefix, type Prefix } from "../lib/addresses/address.ts";
import { sha256 } from "../lib/system/hash.ts";
import type { Labels } from "./model.ts";
import { describeSelector, type Selector, selects } from "./selector.ts";

export type Action = "allow" | "deny" | "pass";

/** Rules of one tier are asked before those of a tier with a higher order. */
export interface Tier {
  readonly order: number;
  /** What a tier with a policy for the workload says when no rule of it matches. */
  readonly otherwise: "deny" | "pass";
}

/** Selects pods: those of one namespace, or of all namespaces whose labels match. */
export interface PodPeer {
  readonly kind: "pods";
  readonly namespaces: string | Selector;
  readonly pods: Selector;
  /** Equal for peers that select the same by the same requirements. */
  readonly key: string;
}

/** Selects addresses, whoever has them. */
export interface BlockPeer {
  readonly kind: "block";
  readonly block: Prefix;
  /** Sorted. */
  readonly excepts: readonly Prefix[];
  readonly key: string;
}

export type Peer = PodPeer | BlockPeer;

/** An interval of ports of one protocol. */
export interface PortRange extends AllowedPorts {
  readonly kind: "range";
}

/** The ports that the destination's containers give this name. */
export interface PortName {
  readonly kind: "name";
  readonly protocol: number;
  readonly name: string;
}

export type Ports = PortRange | PortName;

export interface Rule {
  readonly action: Action;
  /** Counts from 1 in its policy and direction. */
  readonly number: number;
  /** "any": everybody, in the cluster and outside. An empty list: nobody. */
  readonly peers: "any" | readonly Peer[];
  /** "all": every protocol. */
  readonly ports: "all" | readonly Ports[];
}

export interface Policy {
  /** "namespace/name". */
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly tier: Tier;
  /** Place among the policies of its tier; those of one place are sorted by key. */
  readonly order: number;
  readonly subject: PodPeer;
  /** Rules of the directions that the policy has, in order. */
  readonly ingress: readonly Rule[] | undefined;
  readonly egress: readonly Rule[] | undefined;
  /** Why it is invalid; `undefined`: it is valid. */
  readonly problem: string | undefined;
}

/** IP protocol numbers by Kubernetes' names for them. */
export const PROTOCOLS: ReadonlyMap<string, number> = new Map([
  ["TCP", 6],
  ["UDP", 17],
  ["SCTP", 132],
]);

export const PROTOCOL_NAMES: ReadonlyMap<number, string> = new Map([
  ...[...PROTOCOLS].map(([name, number]): [number, string] => [number, name]),
  [1, "ICMP"],
  [58, "ICMPv6"],
]);

export const LAST_PORT = 65_535;

export function podPeer(namespaces: string | Selector, pods: Selector): PodPeer {
  const where = typeof namespaces === "string" ? JSON.stringify(namespaces) : namespaces.canonical;
  return { kind: "pods", namespaces, pods, key: bounded(`pods ${where} ${pods.canonical}`) };
}

/** @param block without host bits, as are the excepts */
export function blockPeer(block: Prefix, excepts: readonly Prefix[]): BlockPeer {
  const byText = new Map(excepts.map((one) => [formatPrefix(one), one]));
  const sorted = [...byText.keys()].sort();
  return {
    kind: "block",
    block,
    excepts: sorted.flatMap((text) => byText.get(text) ?? []),
    key: bounded(["block", formatPrefix(block), ...sorted].join(" ")),
  };
}

/** Longest key that is kept as it is. Keys are joined, sorted and compared all the time, and a selector may have thousands of values. */
const LONGEST_KEY = 300;

/** Puts a digest in the place of what is too long. */
function bounded(key: string): string {
  if (key.length <= LONGEST_KEY) return key;
  return `${key.slice(0, key.indexOf(" "))} sha256 ${sha256(key)}`;
}

/**
 * Tells whether a peer is in a namespace. Where a namespace's labels are not known, only the empty selector selects it: a NotIn that held
 * for want of labels would open what the author closed.
 */
export function isInNamespace({ namespaces }: PodPeer, namespace: string, labels: Labels | undefined): boolean {
  if (typeof namespaces === "string") return namespaces === namespace;
  return labels === undefined ? namespaces.requirements.length === 0 : selects(namespaces, labels);
}

/** Sorts policies as they are asked: by tier, by order, by key. */
export function byOrder(one: Policy, other: Policy): number {
  return one.tier.order - other.tier.order || one.order - other.order || compareText(one.key, other.key);
}

/** Compares by code units, the same in every locale. */
export function compareText(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

export function protocolName(protocol: number): string {
  return PROTOCOL_NAMES.get(protocol) ?? `protocol ${protocol}`;
}

/** Completes "from" and "to": `pods matching app=api in namespace shop`. */
export function describePeer(peer: Peer): string {
  if (peer.kind === "block") {
    const excepts = peer.excepts.length === 0 ? "" : ` except ${peer.excepts.map(formatPrefix).slice(0, 5).join(", ")}`;
    return `addresses in ${formatPrefix(peer.block)}${excepts}${peer.excepts.length > 5 ? " and others" : ""}`;
  }
  const pods = describeSelector(peer.pods);
  return `${pods === "" ? "pods" : `pods matching ${pods}`} in ${describeNamespaces(peer.namespaces)}`;
}

function describeNamespaces(namespaces: string | Selector): string {
  if (typeof namespaces === "string") return `namespace ${namespaces}`;
  const text = describeSelector(namespaces);
  return text === "" ? "any namespace" : `namespaces matching ${text}`;
}

/** Writes `8080/TCP`, `53-84/UDP`, `all ports/SCTP` or `http/TCP`. */
export function describePorts(ports: Ports): string {
  const protocol = protocolName(ports.protocol);
  if (ports.kind === "name") return `"${ports.name}"/${protocol}`;
  if (ports.first === 0 && ports.last === LAST_PORT) return `all ports of ${protocol}`;
  return ports.first === ports.last ? `${ports.first}/${protocol}` : `${ports.first}-${ports.last}/${protocol}`;
}

/** Names the direction's rules of a policy. */
export function rulesOf(policy: Policy, direction: Direction): readonly Rule[] | undefined {
  return direction === "ingress" ? policy.ingress : policy.egress;
}
