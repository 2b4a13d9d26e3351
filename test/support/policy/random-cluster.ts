/** Makes small clusters from a seed: few labels, ports and blocks, so that rules meet the pods that they are about. */

import { words } from "../words.ts";
import type { RawAction, RawCluster, RawFlow, RawPeer, RawPod, RawPolicy, RawPort, RawRule, RawSelector, RawSpec } from "./oracle.ts";
import { isInside } from "./oracle.ts";

type Random = () => number;

export const NAMESPACES = ["shop", "db", "ops", "ghost"];
const LABELS: Readonly<Record<string, readonly string[]>> = {
  app: ["web", "api", "store"],
  tier: ["front", "back"],
  "x.org/odd": ["", "1"],
};
const NAMESPACE_LABELS: Readonly<Record<string, readonly string[]>> = { team: ["red", "blue"], env: ["prod", "test"] };
const PORTS = [80, 81, 443, 8080, 53, 65_535];
const PORT_NAMES = ["http", "dns", "admin"];
const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
const BLOCKS = words`
  0.0.0.0/0 10.0.0.0/8 10.0.0.0/16 10.0.0.77/24 10.0.1.0/24 10.0.1.16/28 10.0.1.20/32 192.0.2.0/24 192.0.2.128/25 ::/0
  fd00::/64 fd00::/122 fd00::10/124 2001:db8::/32
`;
const OUTSIDE = ["192.0.2.7", "192.0.2.200", "198.51.100.1", "10.0.1.200", "10.200.0.1", "fd00::ff", "2001:db8::1", "2001:db9::1"];

export function pick<T>(random: Random, list: readonly T[]): T {
  const found = list[Math.floor(random() * list.length)];
  if (found === undefined) throw new Error("nothing to pick from");
  return found;
}

function some<T>(random: Random, most: number, make: () => T): readonly T[] {
  return Array.from({ length: Math.floor(random() * (most + 1)) }, make);
}

export function randomLabels(random: Random, vocabulary = LABELS): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(vocabulary).flatMap(([key, values]) => (random() < 0.7 ? [[key, pick(random, values)] as const] : [])),
  );
}

export const randomNamespaceLabels = (random: Random) => randomLabels(random, NAMESPACE_LABELS);

/** @param place gives it its addresses: equal for one pod, another for each other pod */
export function randomPod(random: Random, place: number): RawPod {
  const addresses = [`10.0.${place % 3}.${place}`, `fd00::${place.toString(16)}`].filter(() => random() < 0.85);
  const ports = some(random, 3, () => ({ name: pick(random, PORT_NAMES), protocol: pick(random, PROTOCOLS), port: pick(random, PORTS) }));
  return {
    namespace: pick(random, NAMESPACES),
    name: `pod-${place}`,
    labels: randomLabels(random),
    addresses,
    ...(random() < 0.9 ? { ports } : {}),
  };
}

function randomSelector(random: Random, vocabulary = LABELS): RawSelector {
  const entry = () => pick(random, Object.entries(vocabulary));
  const matchLabels = Object.fromEntries(some(random, 1, entry).map(([key, values]) => [key, pick(random, values)]));
  const matchExpressions = some(random, random() < 0.5 ? 2 : 0, () => {
    const [key, values] = entry();
    const operator = pick(random, ["In", "NotIn", "Exists", "DoesNotExist"]);
    if (operator === "Exists" || operator === "DoesNotExist") return { key, operator };
    return { key, operator, values: [pick(random, values), ...some(random, 1, () => pick(random, [...values, "other"]))] };
  });
  return { ...(random() < 0.7 ? { matchLabels } : {}), ...(matchExpressions.length > 0 ? { matchExpressions } : {}) };
}

function randomPeer(random: Random): RawPeer {
  const kind = random();
  if (kind < 0.03) return {};
  if (kind < 0.35) {
    const cidr = pick(random, BLOCKS);
    const length = (block: string) => Number(block.split("/")[1]);
    const inner = BLOCKS.filter((block) => length(block) > length(cidr) && isInside(block.split("/")[0] ?? "", cidr));
    return { ipBlock: { cidr, ...(inner.length > 0 && random() < 0.6 ? { except: some(random, 3, () => pick(random, inner)) } : {}) } };
  }
  return {
    ...(kind < 0.8 ? { podSelector: randomSelector(random) } : {}),
    ...(kind > 0.55 ? { namespaceSelector: randomSelector(random, NAMESPACE_LABELS) } : {}),
  };
}

function randomPort(random: Random): RawPort {
  const protocol = random() < 0.7 ? { protocol: pick(random, PROTOCOLS) } : {};
  const kind = random();
  if (kind < 0.15) return protocol;
  if (kind < 0.4) return { ...protocol, port: pick(random, PORT_NAMES) };
  const port = pick(random, PORTS);
  const last = pick(random, PORTS);
  return { ...protocol, port, ...(kind > 0.8 && last >= port ? { endPort: last } : {}) };
}

function randomRule(random: Random, peers: "from" | "to"): RawRule {
  return {
    ...(random() < 0.85 ? { [peers]: some(random, 3, () => randomPeer(random)) } : {}),
    ...(random() < 0.75 ? { ports: some(random, 3, () => randomPort(random)) } : {}),
  };
}

/** One field each that the API refuses. */
const BROKEN: readonly RawRule[] = [
  { ports: [{ port: 81, endPort: 80 }] },
  { ports: [{ port: "http", endPort: 80 }] },
  { ports: [{ protocol: "ICMP" }] },
  { ports: [{ port: 65_536 }] },
  { from: [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: [] }] } }] },
  { from: [{ namespaceSelector: { matchExpressions: [{ key: "app", operator: "Gt", values: ["1"] }] } }] },
  { from: [{ ipBlock: { cidr: "10.0.0.0/16", except: ["10.1.0.0/24"] } }] },
];

export function randomPolicy(random: Random, name: string): RawPolicy {
  const isInvalid = random() < 0.06;
  const ingress = some(random, 3, () => randomRule(random, "from"));
  const egress = some(random, 3, () => randomRule(random, "to"));
  const types = random() < 0.6 ? pick(random, [["Ingress"], ["Egress"], ["Ingress", "Egress"], []]) : undefined;
  const spec: RawSpec = {
    podSelector: random() < 0.4 ? {} : randomSelector(random),
    ...(types === undefined ? {} : { policyTypes: types }),
    ...(random() < 0.85 || isInvalid ? { ingress: isInvalid ? [...ingress, pick(random, BROKEN)] : ingress } : {}),
    ...(random() < 0.7 ? { egress } : {}),
  };
  return { namespace: pick(random, NAMESPACES), name, spec, ...(isInvalid ? { isInvalid } : {}) };
}

/** A policy of a kind that has tiers, order, and rules that deny or pass. */
export function randomTieredPolicy(random: Random, name: string): RawPolicy {
  const policy = randomPolicy(random, name);
  const actions = (): readonly RawAction[] => Array.from({ length: 5 }, () => pick(random, ["allow", "deny", "pass"] as const));
  // The word of a tier must be the same for all of its policies.
  const tier = pick(random, [-1, 0, 1]);
  return {
    ...policy,
    tiered: {
      tier,
      otherwise: tier === 0 ? "deny" : "pass",
      order: Math.floor(random() * 3),
      ingress: actions(),
      egress: actions(),
      ...(random() < 0.5 ? { namespaceSelector: randomSelector(random, NAMESPACE_LABELS) } : {}),
    },
  };
}

/** @param tiered share of policies with tiers */
export function randomCluster(random: Random, tiered: number): RawCluster {
  const namespaces = new Map(NAMESPACES.filter((name) => name !== "ghost").map((name) => [name, randomNamespaceLabels(random)]));
  const places = [...new Set(some(random, 12, () => 1 + Math.floor(random() * 60)))];
  return {
    enforcement: random() < 0.9 ? "default" : pick(random, ["always", "never"] as const),
    namespaces,
    pods: places.map((place) => randomPod(random, place)),
    policies: some(random, 7, () => undefined).map((_, index) => {
      const name = `policy-${index}`;
      return random() < tiered ? randomTieredPolicy(random, name) : randomPolicy(random, name);
    }),
  };
}

export function randomFlow(random: Random, { pods }: RawCluster): RawFlow {
  const inside = pods.flatMap(({ addresses }) => addresses);
  const isIpv6 = random() < 0.4;
  const ofFamily = (list: readonly string[]) => list.filter((one) => one.includes(":") === isIpv6);
  const end = () => {
    const candidates = ofFamily(random() < 0.8 ? inside : OUTSIDE);
    return pick(random, candidates.length > 0 ? candidates : ofFamily(OUTSIDE));
  };
  const protocol = pick(random, [...PROTOCOLS, "TCP", "ICMP"] as const);
  const port = pick(random, [...PORTS, 82, 1, 444, 5000]);
  return { source: end(), destination: end(), protocol, port: protocol === "ICMP" ? undefined : port };
}
