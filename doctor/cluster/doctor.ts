/** Asks everything that the API server knows about a cluster. The table is the order of the screen; docs/reference/doctor.md explains it. */
import { type Check, runChecks } from "../checks.ts";
import { type CheckResult, type Report, skipped } from "../report.ts";
import { controllerLease } from "./controller.ts";
import { agents, conditions, ranges, tunnels, versions } from "./nodes.ts";
import { endpoints, policies, pools, stored, unreadPolicies } from "./objects.ts";
import { apiServer, clock, clusterInformation, credentials, definitions, rights } from "./server.ts";
import { type ClusterOptions, ClusterView } from "./view.ts";

const check = (group: string, name: string, object: string, look: Check<ClusterView>["look"]): Check<ClusterView> => ({
  group,
  check: name,
  object,
  look,
});

export const CLUSTER_CHECKS: readonly Check<ClusterView>[] = [
  // Nothing else is asked where this one fails.
  check("cluster", "api-server", "API server", apiServer),
  check("cluster", "clock", "clock", clock),
  check("cluster", "credentials", "credentials", credentials),
  check("cluster", "definitions", "definitions", definitions),
  check("cluster", "cluster-information", "ClusterInformation default", clusterInformation),
  check("cluster", "rights", "service accounts", rights),
  check("cluster", "controller-lease", "lease", controllerLease),
  check("nodes", "agents", "agents", agents),
  check("nodes", "conditions", "nodes", conditions),
  check("nodes", "versions", "agents", versions),
  check("nodes", "ranges", "nodes", ranges),
  check("nodes", "tunnels", "tunnels", tunnels),
  check("addresses", "cluster-pools", "pools", pools),
  check("addresses", "cluster-ipam", "datastore", stored),
  check("addresses", "endpoints", "endpoints", endpoints),
  check("policy", "network-policies", "NetworkPolicy", policies),
  check("policy", "unread-policies", "policies of other kinds", unreadPolicies),
];

/**
 * Looks at a cluster through its API server and changes nothing.
 * @throws TortieError when no kubeconfig leads to a server
 */
export async function runClusterDoctor(options: ClusterOptions): Promise<Report> {
  using view = new ClusterView(options);
  const first = await runChecks(CLUSTER_CHECKS.slice(0, 1), view);
  const others = CLUSTER_CHECKS.slice(1);
  const isAway = first.some(({ status }) => status === "failed");
  const rest = isAway ? others.map(notAsked) : await runChecks(others, view);
  return { time: new Date().toISOString(), host: options.host, version: options.version, results: [...first, ...rest] };
}

/** Each question would wait for the same server in vain. */
function notAsked({ group, check: name, object }: Check<ClusterView>): CheckResult {
  return { group, check: name, ...skipped(object, "the API server does not answer") };
}
