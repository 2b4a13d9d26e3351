/**
 * Says by the condition NetworkUnavailable of each node whether its agent serves, by the pods of the agent's DaemonSet. Kubelet is the
 * witness: it reports whether such a pod is Ready. Nothing at rest; one patch a change. Items are `node <name>`.
 */
import { conditionPatch, isAgentPod, isCalicoNode, judgeAgent, type NodeAgent, stateOf } from "../judge/agents.ts";
import type { NodeView, PodView } from "../view/cluster-view.ts";
import { answerUnless, type Duty, type DutyContext } from "./duty.ts";

export interface AgentsSettings {
  /** Time for which an agent must be away; 0: no node is marked, and marks of earlier go. */
  readonly graceMs: number;
  /** Namespace of the agents. */
  readonly namespace: string;
}

export class Agents implements Duty {
  readonly name = "agents";
  /** A pod that waits for the agent's return waits so long at most. */
  readonly mostMs = 10_000;
  readonly #context: DutyContext;
  readonly #settings: AgentsSettings;
  /** Facts of the last look that concern all nodes. */
  #cluster: Pick<NodeAgent, "sets" | "isCalicoThere"> = { isCalicoThere: true };
  #away: readonly string[] = [];

  constructor(context: DutyContext, settings: AgentsSettings) {
    this.#context = context;
    this.#settings = settings;
  }

  /** Nodes that were marked at the last look: new pods do not go there. */
  get away(): readonly string[] {
    return this.#away;
  }

  async look(): Promise<readonly string[]> {
    const { view, observed } = this.#context;
    view.mustBeComplete();
    const agents = this.#agents();
    const marked = [...view.nodeViews].filter(([, node]) => stateOf(node) !== undefined);
    const without = marked.filter(([name, { isReady }]) => isReady && !agents.get(name)?.some((pod) => pod.isReady));
    observed.agent.look(without.map(([name]) => name));
    this.#away = marked.filter(([, node]) => stateOf(node) === "down").map(([name]) => name);
    const isPodless = without.some(([name]) => !agents.has(name) && this.#isAwayLong(name));
    const sets = isPodless ? await this.#context.live.agentSets(this.#settings.namespace) : undefined;
    this.#cluster = { sets, isCalicoThere: view.pods.some(isCalicoNode) };
    const due = [...view.nodeViews].filter(([name, node]) => this.#judge(name, node, agents.get(name)) !== undefined);
    return due.map(([name]) => `node ${name}`);
  }

  async work(item: string): Promise<void> {
    const { view, live, clock, client, log } = this.#context;
    view.mustBeComplete();
    const name = item.slice("node ".length);
    const node = view.nodeViews.get(name);
    if (node === undefined) return;
    let verdict = this.#judge(name, node, this.#agents().get(name));
    if (verdict === "down" || verdict === "gone") {
      // A watch that is frozen shows an agent as it was: the server itself must say that it is away.
      const pods = await live.agentPods(this.#settings.namespace, name);
      verdict = this.#judge(
        name,
        node,
        pods.filter((pod) => this.#isAgent(pod)),
      );
    }
    if (verdict === undefined) return;
    const body = JSON.stringify(conditionPatch(verdict, node.resourceVersion, clock.date().toISOString()));
    const path = `/api/v1/nodes/${encodeURIComponent(name)}/status`;
    // A node that was changed or deleted meanwhile is for the next look.
    const contentType = "application/strategic-merge-patch+json";
    if ((await answerUnless([404, 409], client, { method: "PATCH", path, body, contentType })) === undefined) return;
    log.info(`node ${name}: ${LINE[verdict]}`);
  }

  #judge(name: string, node: NodeView, pods: readonly PodView[] = []): ReturnType<typeof judgeAgent> {
    if (this.#settings.graceMs === 0) return stateOf(node) === undefined ? undefined : "gone";
    return judgeAgent({ ...this.#cluster, node, pods, isAwayLong: this.#isAwayLong(name) });
  }

  #isAwayLong(name: string): boolean {
    return this.#context.observed.agent.isConfirmed(name, this.#settings.graceMs);
  }

  #isAgent(pod: PodView): boolean {
    return isAgentPod(pod, this.#settings.namespace);
  }

  /** @returns pods of agents, by their nodes */
  #agents(): ReadonlyMap<string, readonly PodView[]> {
    return Map.groupBy(
      this.#context.view.pods.filter((pod) => this.#isAgent(pod)),
      ({ node }) => node,
    );
  }
}

const LINE: Readonly<Record<NonNullable<ReturnType<typeof judgeAgent>>, string>> = {
  up: "its agent is ready, new pods may come",
  down: "its agent is not ready, new pods go elsewhere",
  gone: "no agent is meant for it, the condition NetworkUnavailable is removed",
};
