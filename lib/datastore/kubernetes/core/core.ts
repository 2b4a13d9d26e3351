/** The port to the objects of Kubernetes itself: pods, namespaces, nodes. Failures are the datastore port's (DatastoreError). */

import type { ClusterNode, Namespace, NamespacedName, Pod } from "../../../kubernetes/objects.ts";
import type { Datastore, ReadOptions } from "../../datastore.ts";

export interface PodReadOptions extends ReadOptions {
  /** The K8S_POD_UID of the call: what is known of another pod of that name does not count. */
  readonly uid?: string | undefined;
}

export interface KubernetesCore {
  /** Read afresh at every call, unless it may be old. `undefined` when there is no such pod. */
  pod(key: NamespacedName, options?: PodReadOptions): Promise<Pod | undefined>;
  /** Read once for all requests within a second; `undefined` when there is none. */
  namespace(name: string): Promise<Namespace | undefined>;
  /** As `namespace`. */
  node(name: string): Promise<ClusterNode | undefined>;
  /** `gitVersion` of GET /version. */
  serverVersion(timeoutMs: number): Promise<string>;
}

/** `undefined` where the datastore is not Kubernetes. */
export function coreOf(store: Datastore): KubernetesCore | undefined {
  return hasCore(store) ? store.core : undefined;
}

function hasCore(store: Datastore): store is Datastore & { readonly core: KubernetesCore } {
  return "core" in store;
}
