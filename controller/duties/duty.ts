/** What all duties of the leader share. A duty looks at the watches and names what is due; the queue then works on each item alone. */

import type { Allocator, Clock as AllocatorClock } from "../../ipam-plugin/allocator/allocator.ts";
import type { ApiGroup } from "../../lib/datastore/calico/codec.ts";
import type { KubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import type { ClusterView } from "../view/cluster-view.ts";
import type { KubeControllers, LiveCluster } from "./live-cluster.ts";

/** What looks have seen of nodes that are gone, of allocations on them and elsewhere, and of each kind of orphan (orphans.ts). */
export type Observed = Readonly<Record<"node" | "departed" | "leak" | "pod" | "object" | "problem", Observations>>;

export function newObserved(clock: Pick<Clock, "now">): Observed {
  const begun = () => new Observations(clock);
  return { node: begun(), departed: begun(), leak: begun(), pod: begun(), object: begun(), problem: begun() };
}

export interface DutyContext {
  readonly view: ClusterView;
  /** Asks the server, never the watches. */
  readonly live: LiveCluster;
  readonly group: ApiGroup;
  /** Its writes stop with the lease. */
  readonly datastore: KubernetesDatastore;
  /** How many objects its lists have left out so far, because they could not be read. */
  readonly unreadable: () => number;
  readonly allocator: Allocator;
  /** Its writes stop with the lease. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly allocatorClock: AllocatorClock;
  readonly observed: Observed;
  readonly kubeControllers: KubeControllers;
  readonly nodeGraceMs: number;
  /** 0: leaks stay. */
  readonly leakGraceMs: number;
  readonly log: Pick<AgentLog, "info" | "error">;
  readonly onReleased: (reason: "node" | "leak", addresses: number) => void;
}

export interface Duty {
  readonly name: string;
  /** Where somebody waits for it: longest time between two looks, if `--scan-interval` is longer. */
  readonly mostMs?: number;
  /** Observes, and returns what is due. It writes nothing. @throws Error when the cluster cannot be judged now */
  look(signal: AbortSignal): Promise<readonly string[]>;
  /** Judges the item again, and does what is still due. @throws what shall be tried again */
  work(item: string, signal: AbortSignal): Promise<void>;
}

/**
 * Whether addresses may be released at all now: not while the datastore is paused, nor while kube-controllers does the same work.
 * @throws Error when that cannot be found out, or the lists are not complete
 */
export async function mayRelease({ view, datastore, kubeControllers }: DutyContext): Promise<boolean> {
  view.mustBeComplete();
  if ((await kubeControllers.presence()) !== undefined) return false;
  const information = await datastore.clusterInformation.get("default");
  return information?.value.datastoreReady === true;
}
