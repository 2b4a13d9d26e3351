/**
 * Decides what the condition NetworkUnavailable of a node says about its agent: with its taint new pods go elsewhere, and running pods stay.
 * One condition, one owner: what cloud providers or other networks wrote is left alone.
 */
import { NETWORK_UNAVAILABLE, OUR_REASONS } from "../../lib/kubernetes/network-condition.ts";
import type { NodeView, PodView } from "../view/cluster-view.ts";

/** Label `k8s-app` of the agent's pods and of their DaemonSet, and name of their service account (manifests/node). */
export const AGENT = "tortie-node";
const CALICO_NODE = "calico-node";
const CALICO_NAMESPACES = ["kube-system", "calico-system"];
/** Written by calico-node at its start and at its orderly end (calico, node/pkg/lifecycle/utils). */
const CALICO_REASONS = ["CalicoIsUp", "CalicoIsDown"];

export type NetworkState = keyof typeof OUR_REASONS;

/** A DaemonSet of agents, as far as it says which nodes shall have one. */
export interface AgentSet {
  readonly nodeSelector: Readonly<Record<string, string>>;
}

export interface NodeAgent {
  readonly node: NodeView;
  /** Pods of the agent on this node. */
  readonly pods: readonly PodView[];
  /** DaemonSets of the agent. Absent where nobody asked for them. */
  readonly sets?: readonly AgentSet[] | undefined;
  /** The agent was not Ready at any look of the grace period. */
  readonly isAwayLong: boolean;
  /** A pod of calico-node is in the cluster, and the condition with its reasons is its own. */
  readonly isCalicoThere: boolean;
}

/** @returns what the condition should become: a state, or `gone` where no agent is meant to be. Absent: it stays as it is */
export function judgeAgent({ node, pods, sets, isAwayLong, isCalicoThere }: NodeAgent): NetworkState | "gone" | undefined {
  const state = stateOf(node);
  if (pods.some(({ isReady }) => isReady)) {
    const isFree = node.network === undefined || (!isCalicoThere && CALICO_REASONS.includes(node.network.reason));
    return state === "down" || (state === undefined && isFree) ? "up" : undefined;
  }
  // A node that has never had an agent is nobody's business here, and the word of a kubelet that is silent itself is old.
  if (state === undefined || !isAwayLong || !node.isReady) return undefined;
  if (pods.length === 0 && sets !== undefined && !sets.some((set) => isMeant(set, node))) return "gone";
  return state === "up" ? "down" : undefined;
}

/** @returns the state that the condition shows, if it is ours */
export function stateOf({ network }: Pick<NodeView, "network">): NetworkState | undefined {
  return (["up", "down"] as const).find((state) => OUR_REASONS[state] === network?.reason);
}

function isMeant({ nodeSelector }: AgentSet, { labels }: NodeView): boolean {
  return Object.entries(nodeSelector).every(([name, value]) => labels[name] === value);
}

/** @param namespace of the agents: tenants may set labels in theirs */
export function isAgentPod({ namespace: own, labels, serviceAccountName }: PodView, namespace: string): boolean {
  return own === namespace && labels["k8s-app"] === AGENT && serviceAccountName === AGENT;
}

export function isCalicoNode({ namespace, labels, isFinished }: PodView): boolean {
  return CALICO_NAMESPACES.includes(namespace) && labels["k8s-app"] === CALICO_NODE && !isFinished;
}

/** A strategic merge patch of a Node's status, which touches this condition alone. @param now RFC 3339 */
export function conditionPatch(state: NetworkState | "gone", resourceVersion: string, now: string): object {
  const times = { lastHeartbeatTime: now, lastTransitionTime: now };
  const condition =
    state === "gone"
      ? { type: NETWORK_UNAVAILABLE, $patch: "delete" }
      : {
          type: NETWORK_UNAVAILABLE,
          status: state === "down" ? "True" : "False",
          reason: OUR_REASONS[state],
          message: MESSAGE[state],
          ...times,
        };
  return { metadata: { resourceVersion }, status: { conditions: [condition] } };
}

const MESSAGE: Readonly<Record<NetworkState, string>> = {
  up: "the agent tortie-node is ready",
  down: "the agent tortie-node is not ready: new pods go to other nodes, running pods keep their network",
};
