/**
 * Typed clients of the API server. Only the generated part of @kubernetes/client-node is loaded: with the rest of the package (exec,
 * websockets, OpenID) the agent would need 18 MiB more.
 */
import { createConfiguration } from "@kubernetes/client-node/dist/gen/configuration.js";
import type { PromiseMiddleware } from "@kubernetes/client-node/dist/gen/middleware.js";
import { ServerConfiguration } from "@kubernetes/client-node/dist/gen/servers.js";
import { ObjectCoreV1Api, ObjectCustomObjectsApi } from "@kubernetes/client-node/dist/gen/types/ObjectParamAPI.js";
import type { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import { ANY_SERVER, httpLibrary } from "./http-library.ts";

export interface KubernetesClients {
  readonly core: ObjectCoreV1Api;
  readonly custom: ObjectCustomObjectsApi;
}

export function kubernetesClients(connection: ApiConnection): KubernetesClients {
  const configuration = createConfiguration({
    baseServer: new ServerConfiguration(ANY_SERVER, {}),
    httpApi: httpLibrary(connection),
    promiseMiddleware: [patchesAreMerged],
  });
  return { core: new ObjectCoreV1Api(configuration), custom: new ObjectCustomObjectsApi(configuration) };
}

/** The generated code names the first kind of patch that the server takes, a list of operations; ours are objects to be merged. */
const patchesAreMerged: PromiseMiddleware = {
  async pre(request) {
    if (request.getHttpMethod() === "PATCH") request.setHeaderParam("Content-Type", "application/merge-patch+json");
    return request;
  },
  post: async (response) => response,
};

/** HTTP status of a generated client's refusal; 0 for any other error. */
export function statusOfRefusal(error: unknown): number {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : 0;
}
