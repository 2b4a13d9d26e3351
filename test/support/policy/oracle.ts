/**
 * Judges flows by brute force on raw objects, and shares no code with the engine: own selectors, ipaddr.js for blocks, nothing computed ahead.
 * It does not validate: whoever makes an invalid policy marks it.
 */
import ipaddr from "ipaddr.js";

export interface RawSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string; readonly values?: readonly string[] }[];
}

export interface RawPeer {
  readonly podSelector?: RawSelector;
  readonly namespaceSelector?: RawSelector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

export interface RawPort {
  readonly protocol?: string;
  readonly port?: number | string;
  readonly endPort?: number;
}

export interface RawRule {
  readonly from?: readonly RawPeer[];
  readonly to?: readonly RawPeer[];
  readonly ports?: readonly RawPort[];
}

export interface RawSpec {
  readonly podSelector?: RawSelector;
  readonly policyTypes?: readonly string[];
  readonly ingress?: readonly RawRule[];
  readonly egress?: readonly RawRule[];
}

export type RawAction = "allow" | "deny" | "pass";

export interface RawPolicy {
  readonly namespace: string;
  readonly name: string;
  readonly spec: RawSpec;
  /** It closes what it selects and opens nothing. */
  readonly isInvalid?: boolean;
  /** For policies that are no NetworkPolicy. */
  readonly tiered?: {
    readonly tier: number;
    readonly otherwise: "deny" | "pass";
    readonly order: number;
    /** Instead of the policy's own namespace. */
    readonly namespaceSelector?: RawSelector;
    readonly ingress: readonly RawAction[];
    readonly egress: readonly RawAction[];
  };
}

export interface RawPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly addresses: readonly string[];
  readonly ports?: readonly { readonly name: string; readonly protocol: string; readonly port: number }[];
}

export interface RawCluster {
  readonly enforcement: "default" | "always" | "never";
  readonly namespaces: ReadonlyMap<string, Readonly<Record<string, string>>>;
  readonly policies: readonly RawPolicy[];
  readonly pods: readonly RawPod[];
}

export interface RawFlow {
  readonly source: string;
  readonly destination: string;
  readonly protocol: "TCP" | "UDP" | "SCTP" | "ICMP";
  readonly port: number | undefined;
}

export type RawVerdict = "allow" | "deny" | undefined;

/** What each end says; `undefined` where the end is no pod. */
export function askOracle(cluster: RawCluster, flow: RawFlow): { readonly egress: RawVerdict; readonly ingress: RawVerdict } {
  return { egress: ask(cluster, flow, "egress"), ingress: ask(cluster, flow, "ingress") };
}

function ask(cluster: RawCluster, flow: RawFlow, direction: "ingress" | "egress"): RawVerdict {
  const [own, other] = direction === "egress" ? [flow.source, flow.destination] : [flow.destination, flow.source];
  const subject = podAt(cluster, own);
  if (subject === undefined) return undefined;
  if (subject === podAt(cluster, other) || cluster.enforcement === "never") return "allow";
  const selecting = cluster.policies.filter((policy) => isSubject(cluster, policy, subject) && hasDirection(policy.spec, direction));
  const tiers = [...new Set(selecting.map(({ tiered }) => tiered?.tier ?? 0))].sort((one, another) => one - another);
  for (const tier of tiers) {
    const inTier = selecting.filter(({ tiered }) => (tiered?.tier ?? 0) === tier).sort(inOrder);
    const action = firstAction(cluster, inTier, flow, direction) ?? inTier[0]?.tiered?.otherwise ?? "deny";
    if (action !== "pass") return action;
  }
  return cluster.enforcement === "always" ? "deny" : "allow";
}

function inOrder(one: RawPolicy, other: RawPolicy): number {
  const order = (one.tiered?.order ?? 0) - (other.tiered?.order ?? 0);
  if (order !== 0) return order;
  return `${one.namespace}/${one.name}` < `${other.namespace}/${other.name}` ? -1 : 1;
}

function firstAction(
  cluster: RawCluster,
  policies: readonly RawPolicy[],
  flow: RawFlow,
  direction: "ingress" | "egress",
): RawAction | undefined {
  const other = direction === "egress" ? flow.destination : flow.source;
  for (const policy of policies) {
    if (policy.isInvalid) continue;
    for (const [index, rule] of (policy.spec[direction] ?? []).entries()) {
      const peers = (direction === "egress" ? rule.to : rule.from) ?? [];
      const isPeer = peers.length === 0 || peers.some((peer) => matchesPeer(cluster, peer, policy.namespace, other));
      if (isPeer && matchesPorts(rule.ports ?? [], flow, podAt(cluster, flow.destination)))
        return policy.tiered?.[direction][index] ?? "allow";
    }
  }
  return undefined;
}

function podAt({ pods }: RawCluster, address: string): RawPod | undefined {
  return pods.find(({ addresses }) => addresses.includes(address));
}

function isSubject(cluster: RawCluster, { namespace, spec, tiered }: RawPolicy, pod: RawPod): boolean {
  if (!matchesLabels(spec.podSelector ?? {}, pod.labels)) return false;
  if (tiered?.namespaceSelector === undefined) return pod.namespace === namespace;
  return matchesNamespace(cluster, tiered.namespaceSelector, pod.namespace);
}

function hasDirection(spec: RawSpec, direction: "ingress" | "egress"): boolean {
  if (spec.policyTypes !== undefined && spec.policyTypes.length > 0)
    return spec.policyTypes.includes(direction === "ingress" ? "Ingress" : "Egress");
  return direction === "ingress" || (spec.egress !== undefined && spec.egress.length > 0);
}

function matchesPeer(cluster: RawCluster, peer: RawPeer, namespace: string, address: string): boolean {
  if (peer.ipBlock !== undefined) {
    return isInside(address, peer.ipBlock.cidr) && !(peer.ipBlock.except ?? []).some((except) => isInside(address, except));
  }
  if (peer.podSelector === undefined && peer.namespaceSelector === undefined) return false;
  const pod = podAt(cluster, address);
  if (pod === undefined) return false;
  const isThere =
    peer.namespaceSelector === undefined ? pod.namespace === namespace : matchesNamespace(cluster, peer.namespaceSelector, pod.namespace);
  return isThere && matchesLabels(peer.podSelector ?? {}, pod.labels);
}

/** A namespace that nobody knows has labels that nobody knows. */
function matchesNamespace({ namespaces }: RawCluster, selector: RawSelector, namespace: string): boolean {
  const labels = namespaces.get(namespace);
  if (labels !== undefined) return matchesLabels(selector, labels);
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
}

function matchesLabels({ matchLabels = {}, matchExpressions = [] }: RawSelector, labels: Readonly<Record<string, string>>): boolean {
  for (const [key, value] of Object.entries(matchLabels)) if (labels[key] !== value) return false;
  for (const { key, operator, values = [] } of matchExpressions) {
    const value = labels[key];
    if (operator === "In" && (value === undefined || !values.includes(value))) return false;
    if (operator === "NotIn" && value !== undefined && values.includes(value)) return false;
    if (operator === "Exists" && value === undefined) return false;
    if (operator === "DoesNotExist" && value !== undefined) return false;
  }
  return true;
}

export function isInside(address: string, cidr: string): boolean {
  const parsed = ipaddr.parse(address);
  const [network, length] = ipaddr.parseCIDR(cidr);
  return parsed.kind() === network.kind() && parsed.match(network, length);
}

function matchesPorts(ports: readonly RawPort[], flow: RawFlow, destination: RawPod | undefined): boolean {
  if (ports.length === 0) return true;
  return ports.some(({ protocol = "TCP", port, endPort }) => {
    if (protocol !== flow.protocol) return false;
    if (port === undefined) return true;
    if (flow.port === undefined) return false;
    if (typeof port === "number") return flow.port >= port && flow.port <= (endPort ?? port);
    return (destination?.ports ?? []).some((one) => one.name === port && one.protocol === protocol && one.port === flow.port);
  });
}
