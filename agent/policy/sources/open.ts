/** Chooses the sources of policy of a node: which stores it has follows from its datastore. */

import type { Environment } from "../../../lib/cni/protocol.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../../lib/config/decode.ts";
import type { WatchedBlock } from "../../../lib/datastore/calico/block.ts";
import { type ApiGroup, configuredGroup } from "../../../lib/datastore/calico/codec.ts";
import { EtcdClient } from "../../../lib/datastore/etcd/etcd-client.ts";
import { KeyValueStore } from "../../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import { Informers, Watches } from "../../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import type { AgentLog } from "../../../lib/resident/agent-log.ts";
import type { Tasks } from "../../../lib/resident/tasks.ts";
import { isThere } from "../../../lib/system/files.ts";
import { type Clock, SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { discoverServedGroup } from "../../routes/kubernetes-sources.ts";
import { datastoreKeys } from "../../start/configuration.ts";
import type { AgentContext } from "../../start/context.ts";
import { blocksOf, namespacesOf, podsOf, policiesOf, rangesOf } from "./api-objects.ts";
import { etcdEndpoints } from "./etcd-endpoints.ts";
import type { PolicySources } from "./model.ts";
import { PolicyDirectory } from "./policy-directory.ts";
import { JoinedSources, type SourcePart } from "./sources.ts";
import { unreadPolicies } from "./unread.ts";
import { WholePods } from "./whole-pods.ts";

interface SourcesContext extends Pick<AgentContext, "options" | "env" | "node" | "cluster"> {
  readonly controllers: Pick<Tasks, "update" | "remove">;
  readonly log: Pick<AgentLog, "error">;
}

/**
 * Opens the sources; nothing is read before their start.
 * @param directory of files with policies, for a node without an API server
 * @returns `undefined` where there is nothing to read policies from
 * @throws TortieError `netconf-value` when the configuration leads to no etcd
 */
export function openSources(context: SourcesContext, directory: string): PolicySources | undefined {
  const { options, env, node, cluster, controllers, log } = context;
  const config = decodeNetworkConfig({ name: "tortie-node", nodename: node, ...datastoreKeys(options) });
  const onProblem = (message: string) => log.error(message);
  const endpoints = chooseDatastore(config, env) === "etcdv3" ? [ofEtcd(config, env, onProblem)] : [];
  if (cluster === undefined) {
    return isThere(directory) ? new JoinedSources([new PolicyDirectory(directory, SYSTEM_CLOCK), ...endpoints]) : undefined;
  }
  const { connection, blocks, isDatastore } = cluster;
  const openInformers = () => new Informers(connection, { onProblem });
  // Of their own: they end when policy is turned off.
  const informers = openInformers();
  const known = configuredGroup(config, env);
  const parts = partsOfCluster({
    connection,
    informers,
    openInformers,
    blocks,
    tasks: controllers,
    proof: isDatastore ? (options.ipam === "host-scope" ? "ranges" : "blocks") : "records",
    group: async () => known ?? (await discoverServedGroup(connection)),
    clock: SYSTEM_CLOCK,
  });
  return new JoinedSources([...parts, ...endpoints]);
}

export interface ClusterInput {
  readonly connection: Pick<ApiConnection, "exchange">;
  /** Ended with the sources. */
  readonly informers: Pick<Informers, "watch"> & AsyncDisposable;
  readonly openInformers: () => Pick<Informers, "watch"> & AsyncDisposable;
  /** The agent's one watch of the blocks. */
  readonly blocks: (group: ApiGroup) => ResourceCache<WatchedBlock | undefined>;
  readonly tasks: Pick<Tasks, "update" | "remove">;
  /** What proves the addresses of pods: blocks of pools, the ranges of nodes (host scope), or records of another store. */
  readonly proof: "blocks" | "ranges" | "records";
  /** Says which group has Calico's objects. @throws Error while the server cannot say */
  readonly group: () => Promise<ApiGroup>;
  readonly clock: Clock;
}

/** Reads from an API server: policies, namespaces, pods, and what proves the pods' addresses. */
export function partsOfCluster(input: ClusterInput): readonly SourcePart[] {
  const { connection, informers, openInformers, blocks: watched, tasks, proof, group, clock } = input;
  // Assigns: a spread would read what the part says of itself now.
  const policies = Object.assign(policiesOf(informers), { [Symbol.asyncDispose]: () => informers[Symbol.asyncDispose]() });
  const objects = [policies, namespacesOf(informers), unreadPolicies({ connection, tasks })];
  const whole = new WholePods({ open: openInformers, clock, isOnly: proof === "ranges" });
  if (proof === "ranges") return [...objects, whole, rangesOf(informers)];
  const blocks = proof === "blocks" ? [blocksOf({ blocks: watched, group, clock })] : [];
  return [...objects, podsOf(informers), whole, ...blocks];
}

/** Reads the endpoints of all nodes, over a connection of its own. */
function ofEtcd(config: NetworkConfig, env: Environment, onProblem: (message: string) => void): SourcePart {
  const client = new EtcdClient(resolveEtcdSettings(config.etcd, env));
  const watches = new Watches({ onProblem });
  const part = etcdEndpoints({ watches, source: { client, store: new KeyValueStore(client) } });
  return Object.assign(part, {
    async [Symbol.asyncDispose]() {
      // A list that is under way would be repeated until its time is over.
      client.close();
      await watches[Symbol.asyncDispose]();
    },
  });
}
