/** From the network configuration to a client of the API server it means. */
import type { Environment } from "../cni/environment.ts";
import type { ApiClient } from "./api-client.ts";
import { createApiClient } from "./client/http-api-client.ts";
import { type KubernetesSettings, resolveApiConfig } from "./config/resolve.ts";

export { asDatastoreError } from "../datastore/kubernetes/as-datastore-error.ts";

/**
 * Reads kubeconfig and credentials; the connection is made at the first request, which is when a credential plugin runs.
 *
 * @throws TortieError `kubeconfig-missing`, `kubeconfig-unreadable`, `kubeconfig-invalid`, `netconf-value`; requests: `credentials-failed`
 */
export function openApiClient(config: KubernetesSettings, env: Environment): ApiClient {
  return createApiClient(resolveApiConfig(config, env));
}
