/** Endpoint objects as one part of the agent: watch, controllers, deletions and leftovers, plugged together. */

import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { Controllers } from "../../lib/resident/controllers.ts";
import { type Clock, SYSTEM_CLOCK } from "../../lib/system/clock.ts";
import type { KubernetesClients } from "../kubernetes/clients.ts";
import { DeleteJobs } from "./delete-jobs.ts";
import { decodeStored, GROUP, NODE_LABEL, type NodeFacts, nodeLabel, type ObjectEndpoint, PLURAL, VERSION } from "./endpoint-object.ts";
import { Leftovers } from "./leftovers.ts";
import { ObjectApi } from "./object-api.ts";
import { type ObjectSource, ObjectSync } from "./object-sync.ts";

const LEFTOVERS_INTERVAL_MS = 60_000;

export interface EndpointObjectsOptions {
  readonly node: NodeFacts;
  /** `<state>/jobs`. */
  readonly jobsDirectory: string;
  readonly clients: Pick<KubernetesClients, "custom">;
  readonly informers: Informers;
  readonly controllers: Controllers;
  readonly source: ObjectSource;
  /** `--object-qps`. */
  readonly qps: number;
  /** The cluster part of restore has ended. */
  readonly isRestored: () => boolean;
  readonly onProblem: (message: string) => void;
  /** A finding that stays until it is told with `undefined`. */
  readonly onFinding: (key: string, finding: string | undefined) => void;
  readonly clock?: Clock;
}

export interface EndpointObjects {
  /** An endpoint was committed, restored or changed: its object follows behind the caller. */
  changed(endpoint: Pick<ObjectEndpoint, "id">): void;
  /** An endpoint is being removed, and is no longer among the source's. The deletion of its object is durable when this returns. */
  removed(endpoint: ObjectEndpoint): Promise<void>;
  /** Deletions that are still to be done. */
  readonly pendingDeletions: number;
}

/** Begins to watch this node's objects; deletions that an earlier process left are carried out. */
export function endpointObjects(options: EndpointObjectsOptions): EndpointObjects {
  const { node, clients, informers, controllers, source, qps, isRestored, onProblem, onFinding, clock = SYSTEM_CLOCK } = options;
  const api = new ObjectApi(clients, { clock, qps });
  const onAdded = () => void controllers.trigger("object-deletes");
  const jobs = new DeleteJobs({ directory: options.jobsDirectory, api, onAdded, onProblem });
  const cache = informers.watch({
    name: `endpoint objects of ${node.name}`,
    path: `/apis/${GROUP}/${VERSION}/${PLURAL}`,
    labelSelector: `${NODE_LABEL}=${nodeLabel(node.name)}`,
    decode: decodeStored,
  });
  const onForeign = (pod: string, other: string | undefined) =>
    onFinding(
      `endpoint-object ${pod}`,
      other === undefined ? undefined : `the TortieEndpoint ${pod} was made by node ${other} for a pod of this node: it is left alone`,
    );
  const sync = new ObjectSync({ node, api, jobs, source, cache, controllers, clock, onForeign });
  const leftovers = new Leftovers({ node: node.name, cache, source, jobs, clock, isRestored });
  controllers.update("object-deletes", { run: (signal) => jobs.runAll(signal), quiet: true });
  controllers.update("endpoint-object-leftovers", {
    run: async () => void leftovers.look(),
    intervalMs: LEFTOVERS_INTERVAL_MS,
    quiet: true,
  });
  return {
    changed: (endpoint) => sync.changed(endpoint),
    removed: (endpoint) => sync.removed(endpoint),
    get pendingDeletions() {
      return jobs.count;
    },
  };
}
