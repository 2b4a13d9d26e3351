/** What an endpoint is called by policy: its profiles and its labels (C§7.3). */

/** Kubernetes label values hold at most 63 characters; Calico leaves the label out from 63 on (C§7.3). */
const LONGEST_SERVICE_ACCOUNT_LABEL = 62;

/** Profiles of a pod under `policy.type: k8s`: of its namespace, then of its service account. */
export function podProfiles(namespace: string, serviceAccount: string): readonly string[] {
  return [`kns.${namespace}`, ...(serviceAccount === "" ? [] : [`ksa.${namespace}.${serviceAccount}`])];
}

/** Labels that Calico adds to every endpoint; they stand in for labels of the same keys that a workload brings. */
export function endpointLabels(namespace: string, orchestrator: string, serviceAccount: string): Readonly<Record<string, string>> {
  return {
    "projectcalico.org/namespace": namespace,
    "projectcalico.org/orchestrator": orchestrator,
    ...(serviceAccount === "" || serviceAccount.length > LONGEST_SERVICE_ACCOUNT_LABEL
      ? {}
      : { "projectcalico.org/serviceaccount": serviceAccount }),
  };
}
