/** Says in one sentence why a flow passes or not: what decided, or what comes nearest and why it does not match. */
import type { Direction } from "../dataplane/packet-policy.ts";
import type { Address } from "../lib/addresses/address.ts";
import type { Enforcement, Flow } from "./model.ts";
import type { Owner, OwnerPod } from "./owners.ts";
import { portNumbers } from "./profile.ts";
import { describePeer, describePorts, type Peer, type Policy, type PortName, protocolName, type Rule } from "./rules.ts";

/** One end of a flow. */
export interface End {
  readonly address: Address;
  /** The workload, or the address as text. */
  readonly name: string;
  readonly workload: Owner | undefined;
  /** The pod as whose peer rules see it. */
  readonly pod: OwnerPod | undefined;
}

/** One workload whose policies are asked about a flow. */
export interface Side {
  readonly workload: Owner;
  readonly direction: Direction;
  readonly other: End;
  readonly flow: Flow;
  /** Those that select the workload in this direction, in the order in which they are asked. */
  readonly policies: readonly Policy[];
  readonly enforcement: Enforcement;
}

/** What a rule answered. */
export interface Asked {
  readonly policy: Policy;
  readonly rule: Rule;
  /** The peer that matches; `undefined`: none does. */
  readonly peer: "any" | Peer | undefined;
  readonly isPortNamed: boolean;
  /** The pod whose ports a name means. */
  readonly destination: OwnerPod | undefined;
}

export interface Decision {
  readonly verdict: "allow" | "deny";
  readonly why: "self" | "rule" | "no-rule" | "no-policy";
  /** Where a rule decided. */
  readonly by: Asked | undefined;
}

/** Entries of a list that a sentence repeats before it counts the others. */
const SHOWN = 3;

export function reasonOf(side: Side, asked: readonly Asked[], { why, verdict, by }: Decision): string {
  if (why === "self") return "a workload always reaches itself";
  if (by !== undefined) return decidedBy(side, by);
  if (why === "no-rule") return nearest(side, asked);
  const what = side.policies.length === 0 ? "no policy selects" : "every policy passes on";
  if (side.enforcement === "never") return "policy is not enforced on this node";
  const open = `${what} ${side.workload.workload} in ${side.direction}`;
  return verdict === "allow" ? open : `${open}, and enforcement is "always"`;
}

function decidedBy({ direction, flow, other }: Side, { policy, rule, peer }: Asked): string {
  const peers = peer === undefined || peer === "any" ? "everybody" : describePeer(peer);
  return `rule ${rule.number} of ${policy.key} ${rule.action === "allow" ? "allows" : "denies"} ${portOf(flow)} ${preposition(direction)} ${other.name} (${peers})`;
}

function nearest(side: Side, asked: readonly Asked[]): string {
  const invalid = side.policies.find(({ problem }) => problem !== undefined);
  const said = nearestRule(
    side,
    asked.filter(({ rule }) => rule.action === "allow"),
  );
  return invalid === undefined ? said : `${said}; ${invalid.key} is invalid and opens nothing: ${invalid.problem}`;
}

/** @param allowing rules that allow something to somebody */
function nearestRule(side: Side, allowing: readonly Asked[]): string {
  const [from, port] = [preposition(side.direction), portOf(side.flow)];
  const closed = `no rule of ${namesOf(side.policies)} allows ${port} ${from} ${side.other.name}`;
  const otherPort = allowing.find(({ peer }) => peer !== undefined);
  if (otherPort !== undefined) {
    const { policy, rule, peer } = otherPort;
    const number = side.policies.length === 1 ? rule.number : `${rule.number} of ${policy.key}`;
    return `${closed}; rule ${number} allows ${portsOf(otherPort, side)} ${from} ${peer === "any" ? "everybody" : "these peers"}`;
  }
  const otherPeer = allowing.find(({ isPortNamed }) => isPortNamed);
  if (otherPeer !== undefined) {
    return `rule ${otherPeer.rule.number} of ${otherPeer.policy.key} allows ${port}, but ${from} ${peersOf(otherPeer.rule)} only`;
  }
  return allowing.length === 0 ? `${closed}: there is no rule, so ${side.direction} is closed` : closed;
}

function preposition(direction: Direction): "from" | "to" {
  return direction === "ingress" ? "from" : "to";
}

function portOf({ protocol, port }: Flow): string {
  return port === undefined ? protocolName(protocol) : `port ${port}/${protocolName(protocol)}`;
}

function namesOf(policies: readonly Policy[]): string {
  return listed(
    policies.map(({ key }) => key),
    "or",
  );
}

function peersOf({ peers }: Rule): string {
  if (peers === "any") return "everybody";
  return peers.length === 0 ? "nobody" : listed(peers.map(describePeer), "or");
}

/** Writes what a rule allows, and what its names mean where that is why it does not match. */
function portsOf({ rule, destination }: Asked, { direction, workload, other }: Side): string {
  if (rule.ports === "all") return "everything";
  const name = direction === "ingress" ? workload.workload : other.name;
  return listed(
    rule.ports.map((ports) => (ports.kind === "name" ? nameOf(ports, destination, name) : describePorts(ports))),
    "and",
  );
}

function nameOf(ports: PortName, destination: OwnerPod | undefined, name: string): string {
  const text = describePorts(ports);
  if (destination === undefined) return `${text} (${name} is no pod, and only pods name ports)`;
  if (destination.ports === undefined) return `${text} (the ports of ${name} are not known here)`;
  const numbers = portNumbers(destination.ports, ports.name, ports.protocol);
  return numbers.length === 0 ? `${text} (which ${name} does not have)` : `${text} (${numbers.join(" and ")} in ${name})`;
}

function listed(texts: readonly string[], joint: "and" | "or"): string {
  const [shown, more] = texts.length <= SHOWN ? [texts, []] : [texts.slice(0, SHOWN), [`${texts.length - SHOWN} more`]];
  const all = [...shown, ...more];
  return all.length < 2 ? (all[0] ?? "") : `${all.slice(0, -1).join(", ")} ${joint} ${all.at(-1)}`;
}
