/** Starts endpoint objects (A§6.3). Loaded only where `--endpoint-objects` asks for them. */

import { isCommitted } from "../../handover/record.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { RestoredEndpoints } from "../endpoints/start.ts";
import type { AgentContext } from "../start/context.ts";
import { type ObjectEndpoint, withPresentMirror } from "./endpoint-object.ts";
import { endpointObjects } from "./endpoint-objects.ts";
import { kubernetesClients } from "./object-api.ts";

export function startEndpointObjects(context: AgentContext, { manager, isRestored }: RestoredEndpoints): void {
  const { options, node, state, cluster, controllers, health, log } = context;
  if (cluster === undefined) return;
  const objects = endpointObjects({
    node: { name: node },
    jobsDirectory: `${state}/jobs`,
    clients: kubernetesClients(cluster.connection),
    informers: cluster.informers,
    controllers,
    qps: options["object-qps"],
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
    object,
    committedAt,
  };
}
