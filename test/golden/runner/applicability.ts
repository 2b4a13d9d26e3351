/**
 * Which scenarios can be played on the embedded datastore now, and what the others wait for. By rule where a rule can tell from the
 * recording, else by name with a reason. Nothing is dropped silently: the tests report what is listed here as not played yet.
 */

import { isRecord, type Json, listOf, recordOf, textOf } from "../compare/json.ts";
import type { Call, Recording } from "../recording/recording.ts";

export interface Need {
  readonly store: "kubernetes" | "etcd";
  readonly reason: string;
}

/** `undefined`: the scenario is played on the local store. */
export function needOf(recording: Recording): Need | undefined {
  const named = BY_NAME[`${recording.suite}/${recording.name}`];
  if (named !== undefined) return named;
  for (const rule of RULES) {
    const need = rule(recording);
    if (need !== undefined) return need;
  }
  return undefined;
}

const kubernetes = (reason: string): Need => ({ store: "kubernetes", reason });

const RULES: readonly ((recording: Recording) => Need | undefined)[] = [
  ({ objects, steps }) =>
    [...objects, ...steps.flatMap((step) => (step.kind === "change" ? step.put : []))].some(
      ({ annotations }) => Object.keys(annotations).length > 0,
    )
      ? kubernetes("annotations of pods and namespaces are read from the API server")
      : undefined,
  ({ steps }) =>
    steps.some(
      (step) => step.kind === "change" && (step.remove.length > 0 || step.put.some(({ kind }) => kind === "Pod" || kind === "Namespace")),
    )
      ? kubernetes("an API object changes between the calls")
      : undefined,
  (recording) => firstOf(callsOf(recording).map(needOfNetconf)),
  ({ store, objects }) =>
    store === "etcdv3" && objects.some(({ kind }) => kind === "Pod")
      ? kubernetes("an etcd cluster with pods: both servers are asked")
      : undefined,
];

/** Keys of the network configuration that speak of an API server. */
function needOfNetconf(call: Call): Need | undefined {
  if (!isRecord(call.stdin)) return undefined;
  const { kubernetes: access, calico_api_group: group, policy, ipam, feature_control: features } = call.stdin;
  if (isRecord(access) && JSON.stringify(access) !== '{"kubeconfig":"{{kubeconfig}}"}')
    return kubernetes("how the API server is reached and answers");
  if (group !== undefined && group !== "crd.projectcalico.org/v1") return kubernetes("the choice of the API group");
  if (isRecord(policy) && call.plugin === "calico" && policy.type !== "k8s")
    return kubernetes("other values of policy.type on the Kubernetes store");
  if (isRecord(policy) && call.plugin === "calico-ipam") return kubernetes("policy.type k8s, which the local store refuses");
  if (
    call.plugin === "calico" &&
    JSON.stringify(ipam ?? null)
      .toLowerCase()
      .includes("usepodcidr")
  )
    return kubernetes("the pod CIDR is read from the Node");
  if (isRecord(features)) return kubernetes("features that pods ask for by annotations");
  if (["policy_setup_timeout_seconds", "readiness_gates"].some((key) => isUsed(recordOf(call.stdin)[key]))) {
    return kubernetes("readiness gates and the wait for policy are steps of a Kubernetes ADD");
  }
  return undefined;
}

/** Whether a value is of its key's type: a wrong one is refused before any server is asked. */
function isUsed(value: Json | undefined): boolean {
  return typeof value === "number" || (listOf(value).length > 0 && listOf(value).every((entry) => textOf(entry) !== ""));
}

/** By scenario, "suite/name". */
export const BY_NAME: Readonly<Record<string, Need>> = {
  "main/cluster-missing": kubernetes("an absent ClusterInformation counts as ready on the local store"),
  "main/cluster-ready-null": kubernetes("an absent ClusterInformation counts as ready on the local store"),
  "main/env-no-args": kubernetes("without pod names a container is no pod; on the local store it is a plain container"),
  "main/named-ports": kubernetes("ports, labels and service account are read from the pod"),
  "main/namespace-missing": kubernetes("the Namespace does not exist"),
  "main/no-kubernetes": kubernetes("no way to reach the API server is configured"),
  "main/no-policy": kubernetes("other values of policy.type on the Kubernetes store"),
  "main/nodename-uppercase": kubernetes("the Node does not exist; the local store does not ask for one"),
  "main/pod-missing": kubernetes("the Pod does not exist"),
  "main/pod-other-node": kubernetes("the pod's node is read"),
  "main/pod-status-ips": kubernetes("the pod's status is read"),
  "main/pod-succeeded": kubernetes("the pod's phase is read"),
  "main/pod-terminating": kubernetes("the pod's deletion is read"),
  "main/pod-unscheduled": kubernetes("the pod's node is read"),
  "main/etcd-down": { store: "etcd", reason: "etcd cannot be reached" },
  "ipam-kdd/affinity-no-labels": kubernetes("look-ups go by labels, which the local store does not have"),
  "ipam-kdd/affinity-no-labels-ip": kubernetes("look-ups go by labels, which the local store does not have"),
  "ipam-kdd/affinity-no-labels-only": kubernetes("look-ups go by labels, which the local store does not have"),
  "ipam-kdd/affinity-no-labels-pending": kubernetes("look-ups go by labels, which the local store does not have"),
  "ipam-kdd/affinity-foreign-label-type": kubernetes("look-ups go by labels, which the local store does not have"),
  "ipam-kdd/affinity-deleted-mark-claim": kubernetes("only Kubernetes has marks of a soft delete"),
  "ipam-kdd/affinity-deleted-mark-claim-block": kubernetes("only Kubernetes has marks of a soft delete"),
  "ipam-kdd/foreign-fields": kubernetes("labels, annotations and fields of others on API objects"),
  "ipam-kdd/kubeconfig-env": kubernetes("the API server is named by the environment"),
  "ipam-kdd/long-node-260": kubernetes("the Node does not exist; the local store does not ask for one"),
  "ipam-kdd/namespace-missing": kubernetes("the Namespace does not exist"),
  "ipam-kdd/node-name-capital": kubernetes("the Node does not exist; the local store does not ask for one"),
  "ipam-etcd/etcd-endpoints-missing": { store: "etcd", reason: "the configuration names no etcd" },
};

function callsOf(recording: Recording): Call[] {
  return recording.steps.filter((step) => step.kind === "call");
}

function firstOf<T>(values: readonly (T | undefined)[]): T | undefined {
  return values.find((value) => value !== undefined);
}
