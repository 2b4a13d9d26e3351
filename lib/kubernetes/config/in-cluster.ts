/** The API server as a pod sees it: the variables of the Service `kubernetes` and the mounted service account. */
import type { Environment } from "../../cni/environment.ts";
import { isThere } from "../../system/files.ts";
import type { ApiServer, Identity, ServerTrust } from "./api-config.ts";
import { bearer, checkPem, readNamedFile } from "./material.ts";
import { parseServer } from "./server-address.ts";

export const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

export interface InCluster {
  readonly server: ApiServer;
  readonly trust: ServerTrust;
  readonly identity: Identity;
}

/**
 * @returns `undefined` outside of a pod
 * @throws TortieError `kubeconfig-unreadable`, `kubeconfig-invalid` when the mounted files are no good
 */
export function readInCluster(env: Environment, folder = SERVICE_ACCOUNT_FOLDER): InCluster | undefined {
  const host = env.KUBERNETES_SERVICE_HOST;
  const port = env.KUBERNETES_SERVICE_PORT;
  const tokenFile = `${folder}/token`;
  if (!host || !port || !isThere(tokenFile)) return undefined;
  const authority = `${folder}/ca.crt`;
  return {
    server: parseServer(
      `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
    ),
    trust: {
      // The API server's own certificate may be one that the system trusts anyway; then there is no such file.
      certificateAuthority: isThere(authority) ? checkPem(readNamedFile(authority, authority), "CERTIFICATE", authority) : undefined,
      serverName: undefined,
      skipVerify: false,
    },
    identity: {
      description: `the service account in ${folder}`,
      certificate: undefined,
      authorization: bearer(readNamedFile(tokenFile, tokenFile), tokenFile),
      headers: [],
      plugin: undefined,
    },
  };
}
