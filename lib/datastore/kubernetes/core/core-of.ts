/** The objects of Kubernetes itself behind a datastore, over the connection that it has. */
import type { Datastore } from "../../datastore.ts";
import type { KubernetesCore } from "./core.ts";

/** `undefined` where the datastore is not Kubernetes. */
export function coreOf(store: Datastore): KubernetesCore | undefined {
  return hasCore(store) ? store.core : undefined;
}

function hasCore(store: Datastore): store is Datastore & { readonly core: KubernetesCore } {
  return "core" in store;
}
