/** Endpoint objects, plugged to endpoints and cluster (A§6.3). Loaded only where `--endpoint-objects` asks for them. */

import type { AgentLog } from "../lib/resident/agent-log.ts";
import type { Controllers } from "../lib/resident/controllers.ts";
import type { AgentCluster } from "./compose-cluster.ts";
import type { AgentHealth } from "./compose-health.ts";
import type { Endpoint } from "./endpoints/endpoint.ts";
import type { EndpointManager } from "./endpoints/manager.ts";
import { isCommitted } from "./endpoints/record/endpoint-record.ts";
import { kubernetesClients } from "./kubernetes/clients.ts";
import { type NodeFacts, type ObjectEndpoint, withPresentMirror } from "./objects/endpoint-object.ts";
import { endpointObjects } from "./objects/endpoint-objects.ts";

export interface AgentObjectsOptions {
  readonly node: NodeFacts;
  readonly manager: EndpointManager;
  readonly controllers: Controllers;
  readonly cluster: AgentCluster;
  readonly health: AgentHealth;
  /** `<state>/jobs`. */
  readonly jobsDirectory: string;
  readonly qps: number;
  readonly isRestored: () => boolean;
  readonly log: Pick<AgentLog, "error">;
}

export function startEndpointObjects(options: AgentObjectsOptions): void {
  const { node, manager, controllers, cluster, health, jobsDirectory, qps, isRestored, log } = options;
  const objects = endpointObjects({
    node,
    jobsDirectory,
    clients: kubernetesClients(cluster.connection),
    informers: cluster.informers,
    controllers,
    qps,
    isRestored,
    source: {
      endpoints: () =>
        manager.endpoints().flatMap((endpoint) => {
          const shown = objectEndpoint(endpoint);
          return shown === undefined ? [] : withPresentMirror(shown, endpoint.record, cluster.pods.get(shown.pod));
        }),
      pod: (key) => cluster.pods.get(key),
      remember(id, object) {
        const endpoint = manager.get(id);
        if (endpoint !== undefined && isCommitted(endpoint.record)) endpoint.write({ ...endpoint.record, object });
      },
    },
    onProblem: (message) => log.error(message),
    onFinding: (key, finding) => health.health.find(key, finding),
  });
  manager.onChange((event, endpoint) => {
    if (event === "ready") objects.changed(endpoint);
    if (event !== "removing") return;
    const ended = objectEndpoint(endpoint, "removed");
    // Never rejects but for a job that cannot be written; the leftovers are looked for then.
    if (ended !== undefined) objects.removed(ended).catch((error: unknown) => log.error(`endpoint object ${ended.pod}`, { error }));
  });
  for (const endpoint of manager.endpoints()) if (isCommitted(endpoint.record)) objects.changed(endpoint);
}

/** @returns `undefined` for what is no pod's, or not committed */
function objectEndpoint({ id, record, shownState }: Endpoint, when: "there" | "removed" = "there"): ObjectEndpoint | undefined {
  const { pod, podUID, attachment, addresses, object, committedAt } = record;
  if (pod === undefined || podUID === undefined || (when === "there" && !isCommitted(record))) return undefined;
  const state = shownState === "not-ready" || shownState === "waiting-for-identity" ? shownState : "ready";
  return {
    id,
    attachment,
    addresses,
    pod,
    podUID,
    state,
    ...(object !== undefined && { object }),
    ...(committedAt !== undefined && { committedAt }),
  };
}
