/** Starts endpoint objects (A§6.3): watch, controllers, deletions and leftovers. Loaded only where `--endpoint-objects` asks for them. */

import { isCommitted } from "../../handover/record.ts";
import type { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { excerpt } from "../../lib/log/format.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Tasks } from "../../lib/resident/tasks.ts";
import { type Clock, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import type { RestoredEndpoints } from "../endpoints/start.ts";
import type { AgentIdentities } from "../policy/identities/start.ts";
import type { AgentContext } from "../start/context.ts";
import { DeleteJobs } from "./delete-jobs.ts";
import {
  decodeStored,
  GROUP,
  NODE_LABEL,
  type NodeFacts,
  nodeLabel,
  type ObjectEndpoint,
  PLURAL,
  type StoredEndpoint,
  VERSION,
  withPresentMirror,
} from "./endpoint-object.ts";
import { type CustomObjects, customObjects, ObjectApi } from "./object-api.ts";
import { type ObjectSource, ObjectSync } from "./object-sync.ts";

export function startEndpointObjects(
  context: AgentContext,
  { manager, isRestored }: RestoredEndpoints,
  identities: Pick<AgentIdentities, "ofEndpoint">,
): void {
  const { options, node, state, cluster, controllers, health, log } = context;
  if (cluster === undefined) return;
  const objects = endpointObjects({
    node: { name: node },
    jobsDirectory: `${state}/jobs`,
    custom: customObjects(cluster.connection),
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
      identity: (endpoint) => identities.ofEndpoint(endpoint),
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
    // Rejects only if a job cannot be written; the look for leftovers finds the object then.
    if (ended !== undefined) objects.removed(ended).catch((error: unknown) => log.error(`endpoint object ${ended.pod}`, { error }));
  });
  for (const endpoint of manager.endpoints()) if (isCommitted(endpoint.record)) objects.changed(endpoint);
}

/** Is a column of a table, and a message may quote all that a kernel or a plugin said. The definition takes 1,024 characters. */
const MOST_PROBLEM = 200;

/** @returns `undefined` for an endpoint that is not a pod's, or not committed */
function objectEndpoint({ id, record, shownState, log }: Endpoint, when: "there" | "removed" = "there"): ObjectEndpoint | undefined {
  const { pod, podUID, attachment, addresses, object, committedAt } = record;
  if (pod === undefined || podUID === undefined || (when === "there" && !isCommitted(record))) return undefined;
  const state = shownState === "not-ready" || shownState === "waiting-for-identity" ? shownState : "ready";
  const found = log.problem()?.message;
  const problem = found && excerpt(found, MOST_PROBLEM);
  return { id, attachment, addresses, pod, podUID, state, problem, object, committedAt };
}

const LEFTOVERS_INTERVAL_MS = 60_000;

interface EndpointObjectsOptions {
  readonly node: NodeFacts;
  /** `<state>/jobs`. */
  readonly jobsDirectory: string;
  readonly custom: CustomObjects;
  readonly informers: Informers;
  readonly controllers: Tasks;
  readonly source: ObjectSource;
  /** `--object-qps`. */
  readonly qps: number;
  /** The cluster part of restore has ended. */
  readonly isRestored: () => boolean;
  readonly onProblem: (message: string) => void;
  /** Called with a finding, which stays until a call with `undefined`. */
  readonly onFinding: (key: string, finding: string | undefined) => void;
  readonly clock?: Clock;
}

/** Begins to watch this node's objects, and carries out deletions that an earlier process left. */
export function endpointObjects(options: EndpointObjectsOptions): Pick<ObjectSync, "changed" | "removed"> {
  const { node, custom, informers, controllers, source, qps, isRestored, onProblem, onFinding, clock = SYSTEM_CLOCK } = options;
  const api = new ObjectApi(custom, { clock, qps });
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
  return sync;
}

const LEAST_BETWEEN_LOOKS_MS = 60_000;

interface LeftoversOptions {
  readonly node: string;
  readonly cache: ResourceCache<StoredEndpoint>;
  readonly source: Pick<ObjectSource, "endpoints">;
  readonly jobs: Pick<DeleteJobs, "add">;
  readonly clock: Clock;
  /** The cluster part of restore has ended, so that every endpoint is known. */
  readonly isRestored: () => boolean;
}

/**
 * Deletes objects of this node that no endpoint stands behind any more (A§6.4): an agent was killed between its last word and its job, or
 * its state was lost. They go after two looks at least a minute apart, and only while the watch has no gap.
 */
export class Leftovers {
  readonly #options: LeftoversOptions;
  /** By uid. */
  readonly #seen: Observations;

  constructor(options: LeftoversOptions) {
    this.#options = options;
    this.#seen = new Observations(options.clock);
  }

  /** Looks once. @returns how many objects must be deleted now */
  look(): number {
    const { node, cache, jobs, isRestored } = this.#options;
    const { isSynced, followedSince } = cache.state;
    const isComplete = isRestored() && isSynced && followedSince !== undefined;
    let count = 0;
    if (!isComplete) this.#seen.forget();
    for (const object of isComplete ? cache.list() : []) {
      const { namespace, name, uid, resourceVersion, spec, isDeleting } = object;
      if (spec.node !== node || isDeleting || this.#isOwned(object) || !this.#seen.see(uid, LEAST_BETWEEN_LOOKS_MS)) continue;
      jobs.add({ namespace, name, uid, resourceVersion });
      count++;
    }
    this.#seen.endLook();
    return count;
  }

  #isOwned({ namespace, name, spec }: StoredEndpoint): boolean {
    return this.#options.source.endpoints().some(({ pod, podUID }) => pod === `${namespace}/${name}` && podUID === spec.podUID);
  }
}
