/**
 * Removes what belonged to nodes that are gone, and what interrupted operations left behind. Three duties of one shape: a thing that two
 * looks have found, a node's grace apart, and that a last look finds again, is removed. Items are `<kind> <name>`.
 */

import { poolProblems } from "../../doctor/blocks.ts";
import { repair } from "../../doctor/check.ts";
import { handleProblems } from "../../doctor/handles.ts";
import type { Problem, ProblemKind } from "../../doctor/problem.ts";
import { placedBlocks, placedPools } from "../../doctor/snapshot.ts";
import { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { podEndpointKey } from "../../lib/workload/endpoint.ts";
import { type EndpointObject, OWN_GROUP_PATH, type PodView } from "../view/cluster-view.ts";
import { answerUnless, type Duty, type DutyContext, mayRelease, type Observed } from "./duty.ts";

interface Orphans<T> {
  /** Of the duty. */
  readonly name: string;
  readonly kind: keyof Observed;
  /** Lists what is orphaned now; the watches' lists are complete. */
  list(context: DutyContext, signal: AbortSignal): Promise<readonly T[]>;
  nameOf(orphan: T): string;
  /** Returns the same text at two looks for the same state of the same orphan only. */
  keyOf(orphan: T): string;
  /** The orphan of this name before it is removed, where another source knows it better than the list. */
  find?(context: DutyContext, name: string): Promise<T | undefined>;
  remove(context: DutyContext, orphan: T, signal: AbortSignal): Promise<void>;
}

export function removalOf<T>(context: DutyContext, { name: duty, kind, list, nameOf, keyOf, find, remove }: Orphans<T>): Duty {
  const seen = context.observed[kind];
  const isDue = (orphan: T) => seen.isConfirmed(keyOf(orphan), context.nodeGraceMs);
  const listed = (signal: AbortSignal) => {
    context.view.mustBeComplete();
    return list(context, signal);
  };
  return {
    name: duty,
    async look(signal) {
      const orphans = await listed(signal);
      seen.look(orphans.map(keyOf));
      return orphans.filter(isDue).map((orphan) => `${kind} ${nameOf(orphan)}`);
    },
    async work(item, signal) {
      const name = item.slice(kind.length + 1);
      context.view.mustBeComplete();
      const orphan = find === undefined ? (await listed(signal)).find((one) => nameOf(one) === name) : await find(context, name);
      if (orphan !== undefined && isDue(orphan)) await remove(context, orphan, signal);
    },
  };
}

const namespacedName = ({ namespace, name }: { readonly namespace: string; readonly name: string }) => `${namespace}/${name}`;

const isStale = ({ isFinished, isAnnotated, containerId, node }: PodView) => isFinished && isAnnotated && containerId !== "" && node !== "";

/**
 * Annotations of pods that have ended on a node that is gone: they name addresses which no DEL will blank any more (C§3.1, C§7.5). A pod
 * that has not ended keeps its annotations, whatever happened to its node.
 */
export const ANNOTATIONS: Orphans<PodView> = {
  name: "annotations",
  kind: "pod",
  list: async ({ view }) => view.pods.filter((pod) => isStale(pod) && !view.hasNode(pod.node)),
  nameOf: namespacedName,
  keyOf: (pod) => `${namespacedName(pod)} ${pod.uid} ${pod.containerId}`,
  async find({ live }, item) {
    const [namespace = "", name = ""] = item.split("/");
    const pod = await live.pod(namespace, name);
    return pod !== undefined && isStale(pod) ? pod : undefined;
  },
  async remove({ live, datastore, log }, pod) {
    if (await live.hasNode(pod.node)) return;
    const cleared = await datastore.records.clear(podEndpointKey(pod.node, pod), pod.containerId);
    if (cleared !== "cleared") return;
    log.info(`blanked the addresses of pod ${namespacedName(pod)}, which has ended: node ${pod.node} is gone`);
  },
};

/** TortieEndpoint objects of nodes that are gone, whose agents cannot delete them any more (A§6.4). */
export const ENDPOINT_OBJECTS: Orphans<EndpointObject> = {
  name: "endpoint-objects",
  kind: "object",
  // A pod that still runs for the API server may come back with its node.
  list: async ({ view }) =>
    view.endpointObjects.filter(({ namespace, name, node }) => {
      const pod = view.pod(namespace, name);
      return node !== "" && !view.hasNode(node) && (pod === undefined || pod.isFinished || pod.node !== node);
    }),
  nameOf: namespacedName,
  keyOf: (object) => `${namespacedName(object)} ${object.uid} ${object.resourceVersion}`,
  async remove({ live, client, log }, object) {
    const { namespace, name, uid, resourceVersion, node } = object;
    if (await live.hasNode(node)) return;
    const path = `${OWN_GROUP_PATH}/namespaces/${namespace}/tortieendpoints/${name}`;
    const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid, resourceVersion } });
    // The object is gone already, or an agent has written it since: then it is that agent's.
    const deleted = await answerUnless([404, 409], client, { method: "DELETE", path, body });
    if (deleted !== undefined) log.info(`deleted TortieEndpoint ${namespacedName(object)}: node ${node} is gone`);
  },
};

const MENDED: readonly ProblemKind[] = ["handle-orphan", "handle-count-high", "block-abandoned"];

/**
 * What interrupted operations leave in the data, and no other program collects (I§5.3): handles that no block knows, handles that count too
 * much, blocks without owner and addresses. The doctor's rules find and mend them.
 */
export const LEFTOVERS: Orphans<Problem> = {
  name: "leftovers",
  kind: "problem",
  async list(context, signal) {
    if (!(await mayRelease(context))) return [];
    const { view, datastore, allocatorClock } = context;
    view.mustBeComplete();
    // Reads one moment: a change that comes during the request below is for the next look.
    const { handles } = view;
    const pools = placedPools(view.pools.map(({ pool }) => pool));
    const operation = new Operation({ datastore, clock: allocatorClock }, { signal });
    // Nobody writes a block without owner any more, so that its last addresses stay in it when their cooldown is over.
    const cooled = view.blocks.map(async (block) =>
      block.value.affinity === undefined ? { ...block, value: await operation.cooled(block.value) } : block,
    );
    const blocks = placedBlocks(await Promise.all(cooled));
    return [...handleProblems(blocks, handles), ...poolProblems(blocks, pools)].filter(({ kind }) => MENDED.includes(kind));
  },
  nameOf: ({ id }) => id,
  // Every write to the object makes it another observation.
  keyOf: ({ id, evidence }) => `${id} ${evidence}`,
  async remove({ datastore, allocatorClock, log }, problem, signal) {
    const { outcome } = await repair(problem, { datastore, clock: allocatorClock, signal });
    if (outcome === "mended") log.info(`mended ${problem.object}: ${problem.message} (${problem.kind})`);
  },
};
