/** The agent's way to the cluster, one for all its parts; none where the datastore is no Kubernetes API server. */
import type { Environment } from "../lib/cni/environment.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../lib/config/decode.ts";
import { resolveApiConfig } from "../lib/kubernetes/config/resolve.ts";
import { ApiConnection, type OnAnswer } from "./kubernetes/connection.ts";
import { Informers } from "./kubernetes/informers.ts";
import type { AgentLog } from "./process/agent-log.ts";
import type { AgentOptions } from "./process/option-table.ts";

export interface AgentCluster extends AsyncDisposable {
  readonly connection: ApiConnection;
  readonly informers: Informers;
}

/** Connects nothing yet. @throws TortieError as `resolveApiConfig` */
export function clusterOf(
  options: AgentOptions,
  env: Environment,
  log: Pick<AgentLog, "error">,
  onAnswer: OnAnswer,
): AgentCluster | undefined {
  const { kubeconfig, "datastore-type": type } = options;
  const config = decodeNetworkConfig({
    ...(type === undefined ? {} : { datastore_type: type }),
    ...(kubeconfig === undefined ? {} : { kubernetes: { kubeconfig } }),
  });
  if (chooseDatastore(config, env) !== "kubernetes") return undefined;
  const connection = new ApiConnection(resolveApiConfig(config, env), onAnswer);
  const informers = new Informers(connection, { onProblem: (message) => log.error(message) });
  return {
    connection,
    informers,
    async [Symbol.asyncDispose]() {
      connection.close();
      await informers[Symbol.asyncDispose]();
    },
  };
}
