/** Only the objects of Kubernetes itself, for a configuration whose Calico objects lie elsewhere (datastore_type etcdv3, C§1.4). */
import type { Environment } from "../../../cni/environment.ts";
import type { NetworkConfig } from "../../../config/network-config.ts";
import { openApiClient } from "../../../kubernetes/client.ts";
import { ApiCore } from "./api-core.ts";
import type { KubernetesCore } from "./core.ts";

export interface OpenCore extends Disposable {
  readonly core: KubernetesCore;
}

/** @throws TortieError when the configuration leads to no API server */
export function openKubernetesCore(config: NetworkConfig, env: Environment): OpenCore {
  const client = openApiClient(config, env);
  return { core: new ApiCore(client), [Symbol.dispose]: () => client.close() };
}
