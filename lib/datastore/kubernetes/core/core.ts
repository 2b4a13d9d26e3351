/** The port to the objects of Kubernetes itself: pods, namespaces, nodes. Failures are the datastore port's (DatastoreError). */

import type { ClusterNode, Namespace, Pod } from "../../../kubernetes/objects.ts";
import type { NamespacedName } from "../../datastore.ts";

/** What an ADD tells the world about a pod (C§3.1): three annotations. */
export interface PodAnnouncement {
  readonly containerID: string;
  /** /32 and /128, in the order of the result; the first becomes `podIP`. */
  readonly ipNetworks: readonly string[];
}

/** How a DEL left the annotations: blanked, or the pod is another container's by now or was never served, or there is no such pod. */
export type Withdrawal = "withdrawn" | "not-ours" | "missing";

export interface KubernetesCore {
  /** Read afresh at every call. `undefined` when there is no such pod. */
  pod(key: NamespacedName): Promise<Pod | undefined>;
  /** Read once per process, whoever asks; `undefined` when there is none. */
  namespace(name: string): Promise<Namespace | undefined>;
  /** Read once per process, whoever asks; `undefined` when there is none. */
  node(name: string): Promise<ClusterNode | undefined>;
  /**
   * PATCH of the status sub-resource, strategic merge, with the pod's uid as precondition, so that a new pod of the same name is not
   * written to (C§7.6). Repeating it is harmless.
   *
   * @throws DatastoreError `not-found` when the pod is gone or is another one by now
   */
  announce(pod: NamespacedName & { readonly uid: string }, announcement: PodAnnouncement): Promise<void>;
  /**
   * Blanks `podIP` and `podIPs` if, and only if, the pod's `containerID` annotation is this container's: one JSON patch (RFC 6902) of
   * the status sub-resource whose `test` the server judges (design, invariant 7). Repeating it is harmless.
   */
  withdraw(pod: NamespacedName, containerID: string): Promise<Withdrawal>;
  /** `gitVersion` of GET /version. */
  serverVersion(timeoutMs: number): Promise<string>;
}
