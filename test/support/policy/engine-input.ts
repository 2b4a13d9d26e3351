/** Tells an engine of a raw cluster, in whatever order. */
import type { PolicyEngine } from "../../../policy/engine.ts";
import type { Flow, PeerPod, WorkloadPod } from "../../../policy/model.ts";
import { translateNetworkPolicy } from "../../../policy/network-policy.ts";
import { type Policy, podPeer, type Rule } from "../../../policy/rules.ts";
import { readSelector } from "../../../policy/selector.ts";
import { address } from "../addresses.ts";
import type { RawAction, RawCluster, RawFlow, RawPod, RawPolicy } from "./oracle.ts";

const NUMBERS = { TCP: 6, UDP: 17, SCTP: 132, ICMP: 1 } as const;

export function flowOf({ source, destination, protocol, port }: RawFlow): Flow {
  return { source: address(source), destination: address(destination), protocol: NUMBERS[protocol], port };
}

/** Pods of this node are those with an even number. */
export function isLocal({ name }: RawPod): boolean {
  return Number(name.slice("pod-".length)) % 2 === 0;
}

export function hostInterfaceOf({ name }: RawPod): string {
  return `cali${name}`;
}

export function peerOf({ namespace, name, labels, addresses, ports }: RawPod): PeerPod {
  return { namespace, name, labels, addresses: addresses.map(address), ports };
}

/** @param pod whose ports are known, as they are for pods of this node */
export function workloadOf({ namespace, name, labels, ports = [] }: RawPod): WorkloadPod {
  return { namespace, name, labels, ports };
}

export function setPod(engine: PolicyEngine, pod: RawPod): void {
  engine.setPeer(`${pod.namespace}/${pod.name}`, peerOf(pod));
  if (isLocal(pod)) engine.setEndpoint(hostInterfaceOf(pod), { addresses: pod.addresses.map(address), pod: workloadOf(pod) });
}

export function removePod(engine: PolicyEngine, pod: RawPod): void {
  engine.setPeer(`${pod.namespace}/${pod.name}`, undefined);
  engine.setEndpoint(hostInterfaceOf(pod), undefined);
}

export function policyObject(namespace: string, name: string, spec: Readonly<Record<string, unknown>>) {
  return { namespace, name, uid: `uid-${name}`, resourceVersion: "1", spec };
}

export function setPolicy(engine: PolicyEngine, policy: RawPolicy): void {
  const { namespace, name, spec, tiered } = policy;
  const object = policyObject(namespace, name, { ...spec });
  if (tiered === undefined) engine.setPolicy(`${namespace}/${name}`, object);
  else engine.setRules(`${namespace}/${name}`, tieredPolicy(translateNetworkPolicy(object), tiered));
}

function tieredPolicy(policy: Policy, tiered: NonNullable<RawPolicy["tiered"]>): Policy {
  const withActions = (rules: readonly Rule[] | undefined, actions: readonly RawAction[]) =>
    rules?.map((rule, index) => ({ ...rule, action: actions[index] ?? rule.action }));
  const namespaces =
    tiered.namespaceSelector === undefined ? policy.subject.namespaces : readSelector({ path: "", value: tiered.namespaceSelector });
  return {
    ...policy,
    tier: { order: tiered.tier, otherwise: tiered.otherwise },
    order: tiered.order,
    subject: podPeer(namespaces, policy.subject.pods),
    ingress: withActions(policy.ingress, tiered.ingress),
    egress: withActions(policy.egress, tiered.egress),
  };
}

/** The calls that tell an engine of everything in a cluster. */
export function callsFor(cluster: RawCluster): readonly ((engine: PolicyEngine) => void)[] {
  return [
    ...[...cluster.namespaces].map(
      ([name, labels]) =>
        (engine: PolicyEngine) =>
          engine.setNamespace(name, labels),
    ),
    ...cluster.policies.map((policy) => (engine: PolicyEngine) => setPolicy(engine, policy)),
    ...cluster.pods.map((pod) => (engine: PolicyEngine) => setPod(engine, pod)),
  ];
}

export function shuffled<T>(random: () => number, list: readonly T[]): readonly T[] {
  return list
    .map((value) => [random(), value] as const)
    .sort(([one], [other]) => one - other)
    .map(([, value]) => value);
}
