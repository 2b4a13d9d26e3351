/** The agent's one connection to the API server. With etcd as the datastore it is used for pods only. */

import type { Environment } from "../../lib/cni/protocol.ts";
import { chooseDatastore, isKubernetesConfigured } from "../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { parseObject } from "../../lib/json/decode.ts";
import { ApiConnection, type OnAnswer } from "../../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { decodePod } from "../../lib/kubernetes/objects.ts";
import { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { datastoreKeys } from "./configuration.ts";
import type { AgentOptions } from "./options.ts";

/** How often the watch of the node's pods is requested anew: the longest time for which a dead connection stays unnoticed. */
const HEARTBEAT_SECONDS = 30;

export interface AgentCluster extends AsyncDisposable {
  readonly connection: ApiConnection;
  readonly informers: Informers;
  /** Calico's resources are there too. */
  readonly isDatastore: boolean;
  /** Of this node, by "namespace/name". */
  readonly pods: ResourceCache<Pod>;
  /** Asked of the server. @returns `undefined` when there is none @throws Error when it cannot be found out */
  readPod(key: string): Promise<Pod | undefined>;
}

export interface ClusterOptions {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly node: string;
  readonly log: Pick<AgentLog, "error">;
  readonly onAnswer?: OnAnswer;
}

/** Begins to watch the node's pods. @throws TortieError as `resolveApiConfig` */
export function clusterOf({ options, env, node, log, onAnswer }: ClusterOptions): AgentCluster | undefined {
  const config = decodeNetworkConfig(datastoreKeys(options));
  const datastore = chooseDatastore(config, env);
  const isThere = datastore === "kubernetes" || (datastore === "etcdv3" && isKubernetesConfigured(config, env));
  if (!isThere) return undefined;
  const connection = new ApiConnection(resolveApiConfig(config, env), onAnswer);
  const informers = new Informers(connection, { onProblem: (message) => log.error(message) });
  const pods = informers.watch({
    name: `pods of ${node}`,
    path: "/api/v1/pods",
    fieldSelector: `spec.nodeName=${node}`,
    decode: decodePod,
    heartbeatSeconds: HEARTBEAT_SECONDS,
  });
  return {
    connection,
    informers,
    pods,
    isDatastore: datastore === "kubernetes",
    async readPod(key) {
      const [namespace = "", name = ""] = key.split("/").map(encodeURIComponent);
      const { status, body } = await connection.exchange({ method: "GET", path: `/api/v1/namespaces/${namespace}/pods/${name}` });
      if (status === 404) return undefined;
      if (status !== 200) throw new Error(`the API server answered ${status} when it was asked for pod ${key}`);
      return decodePod(parseObject(body));
    },
    async [Symbol.asyncDispose]() {
      await informers[Symbol.asyncDispose]();
      connection.close();
    },
  };
}
