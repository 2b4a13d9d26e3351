/**
 * The effects that the verbs of the main plugin need, each opened at first use only. None is closed: the process ends with its one
 * operation, and a local datastore that is closed by the last process would be copied back into its file, with three waits for the
 * disk, at the end of every single ADD (docs/decisions.md).
 */
import type { Dataplane } from "../../dataplane/dataplane.ts";
import { LinuxDataplane } from "../../dataplane/linux/linux-dataplane.ts";
import { ensureMasquerade } from "../../dataplane/linux/nat.ts";
import { createIpamServices, type IpamServices } from "../../ipam-plugin/services.ts";
import type { Environment } from "../../lib/cni/environment.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../../lib/config/network-config.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { KubernetesCore } from "../../lib/kubernetes/core.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { turns } from "../../lib/system/turns.ts";

export interface Services {
  readonly env: Environment;
  readonly log: Logger;
  readonly dataplane: Dataplane;
  readonly datastoreType: DatastoreType;
  /** No API server and no Felix: this node does its own forwarding and masquerading. */
  readonly isStandalone: boolean;
  /** The datastore of the configuration, opened at the first call. */
  datastore(): Promise<Datastore>;
  /**
   * Opens a datastore that is a server, and lets the handshake begin, so that what the caller does next costs no time of its own. Never
   * fails: what stands in the way is met when the datastore is asked for.
   */
  headStart(): Promise<void>;
  /** Pods, namespaces and nodes, over the connection that the datastore has when it is Kubernetes as well. */
  core(): Promise<KubernetesCore>;
  /** What the IPAM plugin needs when it is served in this process. */
  ipamServices(): Promise<IpamServices>;
  /** Makes sure that traffic leaving the pools is masqueraded as their `natOutgoing` says. */
  ensureOutgoing(): Promise<void>;
}

export function createServices(config: NetworkConfig, env: Environment, log: Logger): Services {
  let opened: Promise<Datastore> | undefined;
  const datastore = () => {
    opened ??= openDatastore(config, env, ({ message }) => log.error(`left out of a list: ${message}`));
    return opened;
  };
  const datastoreType = chooseDatastore(config, env);
  let ipam: Promise<IpamServices> | undefined;
  return {
    env,
    log,
    dataplane: new LinuxDataplane(),
    datastoreType,
    isStandalone: datastoreType === "local",
    datastore,
    async headStart() {
      if (datastoreType === "local") return;
      try {
        await datastore();
        // The first one makes the connection, the second one says the first word of the handshake.
        await turns(2);
      } catch {}
    },
    async core() {
      const store = await datastore();
      const core = coreOf(store);
      if (core === undefined) throw new Error(`${store.description} knows no pods`);
      return core;
    },
    ipamServices() {
      ipam ??= datastore().then((store) => createIpamServices({ datastore: store, node: nodeName(config), env, log }));
      return ipam;
    },
    async ensureOutgoing() {
      const pools = (await (await datastore()).pools.list()).map(({ value }) => value);
      ensureMasquerade(
        pools.filter((pool) => pool.natOutgoing).map((pool) => pool.cidr),
        pools.map((pool) => pool.cidr),
      );
    },
  };
}

/** The objects of Kubernetes itself, where the datastore is Kubernetes. */
export function coreOf(store: Datastore): KubernetesCore | undefined {
  return hasCore(store) ? store.core : undefined;
}

function hasCore(store: Datastore): store is Datastore & { readonly core: KubernetesCore } {
  return "core" in store;
}
