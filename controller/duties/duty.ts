/** What all duties of the leader share. A duty looks at the watches and names what is due; the queue then works on each item alone. */
import type { Allocator, Clock as AllocatorClock } from "../../ipam-plugin/allocator/allocator.ts";
import type { KubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { Clock } from "../../lib/system/clock.ts";
import type { Observations } from "../judge/observations.ts";
import type { ClusterView } from "../view/cluster-view.ts";
import type { KubeControllers } from "./kube-controllers.ts";
import type { LiveCluster } from "./live-cluster.ts";

export interface DutyContext {
  readonly view: ClusterView;
  /** Asks the server, never the watches. */
  readonly live: LiveCluster;
  /** Its writes stop with the lease. */
  readonly datastore: KubernetesDatastore;
  /** How many objects its lists have left out so far, because they could not be read. */
  readonly unreadable: () => number;
  readonly allocator: Allocator;
  /** Its writes stop with the lease. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly allocatorClock: AllocatorClock;
  readonly observations: Observations;
  readonly kubeControllers: KubeControllers;
  readonly nodeGraceMs: number;
  /** 0: leaks stay. */
  readonly leakGraceMs: number;
  readonly log: { info(message: string): void; error(message: string): void };
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
