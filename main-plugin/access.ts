/** The way of one call to its datastore, which is opened once, at first use. */
import type { Environment } from "../lib/cni/environment.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../lib/config/network-config.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { KubernetesCore } from "../lib/datastore/kubernetes/core/core.ts";
import { coreOf } from "../lib/datastore/kubernetes/core/core-of.ts";
import { openDatastore } from "../lib/datastore/open.ts";
import type { Logger } from "../lib/log/logger.ts";
import { once } from "../lib/system/once.ts";

/** What is needed before anything is changed. */
export interface Access {
  readonly env: Environment;
  readonly log: Logger;
  readonly datastoreType: DatastoreType;
  /** No API server and no Felix: this node does its own forwarding and masquerading. */
  readonly isStandalone: boolean;
  /** The datastore of the configuration, opened at the first call. */
  datastore(): Promise<Datastore>;
  /** Pods, namespaces and nodes, over the connection that the datastore has when it is Kubernetes as well. */
  core(): Promise<KubernetesCore>;
}

export function createAccess(config: NetworkConfig, env: Environment, log: Logger): Access {
  const datastoreType = chooseDatastore(config, env);
  const isStandalone = datastoreType === "local";
  const datastore = once(() => openDatastore(config, env, ({ message }) => log.error(`stored object: ${message}`)));
  return {
    env,
    log,
    datastoreType,
    isStandalone,
    datastore,
    async core() {
      const store = await datastore();
      const core = coreOf(store);
      if (core === undefined) throw new Error(`${store.description} knows no pods`);
      return core;
    },
  };
}
