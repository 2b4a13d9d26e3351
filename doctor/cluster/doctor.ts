/** Asks everything that the API server knows about a cluster. The table is the order of the screen; docs/reference/doctor.md explains it. */
import { type Check, row, runChecks } from "../checks.ts";
import { type CheckResult, type Report, result, skipped } from "../report.ts";
import { controllerLease } from "./controller.ts";
import { agents, conditions, ranges, tunnels, versions } from "./nodes.ts";
import { endpoints, policies, pools, stored, unreadPolicies } from "./objects.ts";
import { apiServer, clock, clusterInformation, credentials, definitions, rights } from "./server.ts";
import { type ClusterOptions, ClusterView } from "./view.ts";

export const CLUSTER_CHECKS: readonly Check<ClusterView>[] = [
  // Nothing else is asked where this one fails.
  row("cluster", "api-server", "API server", apiServer),
  row("cluster", "clock", "clock", clock),
  row("cluster", "credentials", "credentials", credentials),
  row("cluster", "definitions", "definitions", definitions),
  row("cluster", "cluster-information", "ClusterInformation default", clusterInformation),
  row("cluster", "rights", "service accounts", rights),
  row("cluster", "controller-lease", "lease", controllerLease),
  row("nodes", "agents", "agents", agents),
  row("nodes", "conditions", "nodes", conditions),
  row("nodes", "versions", "agents", versions),
  row("nodes", "ranges", "nodes", ranges),
  row("nodes", "tunnels", "tunnels", tunnels),
  row("addresses", "cluster-pools", "pools", pools),
  row("addresses", "cluster-ipam", "datastore", stored),
  row("addresses", "endpoints", "endpoints", endpoints),
  row("policy", "network-policies", "NetworkPolicy", policies),
  row("policy", "unread-policies", "policies of other kinds", unreadPolicies),
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
function notAsked({ group, check, object }: Check<ClusterView>): CheckResult {
  return result(group, check, skipped(object, "the API server does not answer"));
}
