/** Pods and namespaces as the Kubernetes API would give them, for tests of pure functions. */
import type { Namespace, Pod } from "../../lib/kubernetes/objects.ts";

/** A scheduled, running pod `rec/pod1` without addresses; members of `change` replace it key by key. */
export function podOf(change: Partial<Pod> = {}): Pod {
  return {
    namespace: "rec",
    name: "pod1",
    uid: "30316465-6365-4463-ad63-3564622d3638",
    resourceVersion: "1",
    labels: {},
    annotations: {},
    owners: [],
    generateName: "",
    creationTimestamp: "2026-11-21T12:00:00Z",
    isDeleting: false,
    nodeName: "node1",
    serviceAccountName: "",
    isHostNetwork: false,
    ports: [],
    phase: "Running",
    podIP: "",
    podIPs: [],
    ...change,
  };
}

/** The same with annotations of Calico's plugins, without their prefix `cni.projectcalico.org/`. */
export function annotatedPod(annotations: Readonly<Record<string, string>>, change: Partial<Pod> = {}): Pod {
  return podOf({ annotations: withPrefix(annotations), ...change });
}

export function annotatedNamespace(annotations: Readonly<Record<string, string>>): Namespace {
  return { name: "rec", labels: {}, annotations: withPrefix(annotations) };
}

function withPrefix(annotations: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).map(([name, value]) => [`cni.projectcalico.org/${name}`, value]));
}
