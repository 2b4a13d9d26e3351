/**
 * Judges one flow by asking every rule, as an administrator would read the policies. It shares the translation of policies with the engine, not
 * what the engine computes from it: tests hold that both say the same.
 */
import type { ClassName, Direction } from "../dataplane/packet-policy.ts";
import { type Address, contains, formatAddress } from "../lib/addresses/address.ts";
import type { Enforcement, Flow, Judgement, Labels, SideJudgement } from "./model.ts";
import type { Owner, OwnerPod } from "./owners.ts";
import { portNumbers } from "./profile.ts";
import { type Asked, type Decision, type End, reasonOf, type Side } from "./reason.ts";
import { isInNamespace, LAST_PORT, type Peer, type Policy, type Ports, type Rule, rulesOf, type Tier } from "./rules.ts";
import { selects } from "./selector.ts";

/** What the judge asks of the engine's input. */
export interface Known {
  readonly enforcement: Enforcement;
  /** Labels of a namespace; `undefined` where they are not known. */
  labelsOf(namespace: string): Labels | undefined;
  /** The policies that select a pod, in the order in which they are asked. */
  policiesOf(pod: OwnerPod): readonly Policy[];
  workloadAt(address: string): Owner | undefined;
  podAt(address: string): OwnerPod | undefined;
  classAt(address: Address): ClassName;
}

/** Both ends must allow a flow; an end that is no workload allows everything. */
export function judge(known: Known, flow: Flow): Judgement {
  const [source, destination] = [endAt(known, flow.source), endAt(known, flow.destination)];
  const egress = judgeSide(known, flow, "egress", source, destination);
  const ingress = judgeSide(known, flow, "ingress", destination, source);
  return { verdict: egress?.verdict === "deny" || ingress?.verdict === "deny" ? "deny" : "allow", egress, ingress };
}

function endAt(known: Known, address: Address): End {
  const text = formatAddress(address);
  const workload = known.workloadAt(text);
  return { address, name: workload?.workload ?? text, workload, pod: known.podAt(text) };
}

function judgeSide(known: Known, flow: Flow, direction: Direction, { workload }: End, other: End): SideJudgement | undefined {
  if (workload === undefined) return undefined;
  const { pod } = workload;
  const selecting = pod === undefined ? [] : known.policiesOf(pod);
  const policies = known.enforcement === "never" ? [] : selecting.filter((policy) => rulesOf(policy, direction) !== undefined);
  const side: Side = { workload, direction, other, flow, policies, enforcement: known.enforcement };
  const asked = policies.flatMap((policy) => (rulesOf(policy, direction) ?? []).map((rule) => ask(known, side, policy, rule)));
  const decision = workload === other.workload ? SELF : decide(side, asked);
  const { rule, policy } = decision.by ?? {};
  return {
    workload: workload.workload,
    direction,
    verdict: decision.verdict,
    policies: policies.map(({ key }) => key).sort(),
    decidedBy: rule === undefined || policy === undefined ? undefined : { policy: policy.key, direction, rule: rule.number },
    peerClass: known.classAt(other.address),
    peer: other.name,
    // Who judges thousands of flows reads the verdicts alone.
    get reason() {
      return reasonOf(side, asked, decision);
    },
    get lacksPorts() {
      return asked.some(lacksPorts);
    },
  };
}

const SELF: Decision = { verdict: "allow", why: "self", by: undefined };

/** Asks tier after tier. The first rule that matches decides in its tier; where none does, the tier's own word holds. */
function decide({ policies, enforcement }: Side, asked: readonly Asked[]): Decision {
  const tiers = new Map<number, Tier>(policies.map(({ tier }) => [tier.order, tier]));
  for (const tier of tiers.values()) {
    const by = asked.find(({ policy, peer, isPortNamed }) => policy.tier.order === tier.order && peer !== undefined && isPortNamed);
    if (by !== undefined && by.rule.action !== "pass") return { verdict: by.rule.action, why: "rule", by };
    if (by === undefined && tier.otherwise === "deny") return { verdict: "deny", why: "no-rule", by: undefined };
  }
  return { verdict: enforcement === "always" ? "deny" : "allow", why: "no-policy", by: undefined };
}

function ask(known: Known, { workload, direction, other, flow }: Side, policy: Policy, rule: Rule): Asked {
  const destination = withPorts(direction === "ingress" ? workload.pod : other.pod, flow);
  const peer = rule.peers === "any" ? "any" : rule.peers.find((one) => isPeer(known, one, other));
  const isPortNamed = rule.ports === "all" || rule.ports.some((ports) => isPort(ports, flow, destination));
  return { policy, rule, peer, isPortNamed, destination };
}

function withPorts(pod: OwnerPod | undefined, { destinationPorts: ports }: Flow): OwnerPod | undefined {
  return pod === undefined || pod.ports !== undefined || ports === undefined ? pod : { ...pod, ports };
}

function lacksPorts({ rule, peer, destination }: Asked): boolean {
  if (peer === undefined || destination === undefined || destination.ports !== undefined) return false;
  return rule.ports !== "all" && rule.ports.some(({ kind }) => kind === "name");
}

function isPeer(known: Known, peer: Peer, { address, pod }: End): boolean {
  if (peer.kind === "block") return contains(peer.block, address) && !peer.excepts.some((except) => contains(except, address));
  return pod !== undefined && isInNamespace(peer, pod.namespace, known.labelsOf(pod.namespace)) && selects(peer.pods, pod.labels);
}

/** A name means the destination's own ports. Without a port, only an entry for all ports of the protocol matches. */
function isPort(ports: Ports, { protocol, port }: Flow, destination: OwnerPod | undefined): boolean {
  if (ports.protocol !== protocol) return false;
  if (ports.kind === "name") return port !== undefined && portNumbers(destination?.ports ?? [], ports.name, protocol).includes(port);
  if (port === undefined) return ports.first === 0 && ports.last === LAST_PORT;
  return port >= ports.first && port <= ports.last;
}
