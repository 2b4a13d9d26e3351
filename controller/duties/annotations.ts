/**
 * Annotations of pods that have ended on a node that is gone: they name addresses which no DEL will blank any more (C§3.1, C§7.5). A pod
 * that has not ended keeps its annotations, whatever happened to its node. Items are `pod <namespace>/<name>`.
 */
import { podEndpointKey } from "../../lib/workload/endpoint.ts";
import type { PodView } from "../view/pod-view.ts";
import type { Duty, DutyContext } from "./duty.ts";

export class Annotations implements Duty {
  readonly name = "annotations";
  readonly #context: DutyContext;

  constructor(context: DutyContext) {
    this.#context = context;
  }

  async look(): Promise<readonly string[]> {
    const { view, observations, clock, nodeGraceMs } = this.#context;
    view.mustBeComplete();
    const stale = view.pods.filter((pod) => isStale(pod) && !view.hasNode(pod.node));
    const now = clock.now();
    observations.look("pod", stale.map(keyOf), now);
    return stale
      .filter((pod) => observations.isConfirmed("pod", keyOf(pod), nodeGraceMs, now))
      .map(({ namespace, name }) => `pod ${namespace}/${name}`);
  }

  async work(item: string): Promise<void> {
    const { view, observations, clock, nodeGraceMs, live, datastore, log } = this.#context;
    view.mustBeComplete();
    const [namespace = "", name = ""] = item.slice("pod ".length).split("/");
    const pod = await live.pod(namespace, name);
    if (pod === undefined || !isStale(pod) || !observations.isConfirmed("pod", keyOf(pod), nodeGraceMs, clock.now())) return;
    if (await live.hasNode(pod.node)) return;
    const cleared = await datastore.records.clear(podEndpointKey(pod.node, pod), pod.containerId);
    if (cleared === "cleared") log.info(`blanked the addresses of pod ${namespace}/${name}, which has ended: node ${pod.node} is gone`);
  }
}

function isStale({ isFinished, isAnnotated, containerId, node }: PodView): boolean {
  return isFinished && isAnnotated && containerId !== "" && node !== "";
}

function keyOf({ namespace, name, uid, containerId }: PodView): string {
  return `${namespace}/${name} ${uid} ${containerId}`;
}
