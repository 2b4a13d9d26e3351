/** The two groups of Calico's custom resources (I§2.1): which one a cluster has, and where they differ. */

import type { Environment } from "../../cni/environment.ts";
import type { NetworkConfig } from "../../config/network-config.ts";
import { objects, parseObject, text } from "../../json/decode.ts";
import type { ApiClient } from "../../kubernetes/api-client.ts";

export const LEGACY_GROUP = "crd.projectcalico.org/v1";
export const V3_GROUP = "projectcalico.org/v3";

/** `apiVersion` of the objects. */
export type ApiGroup = typeof LEGACY_GROUP | typeof V3_GROUP;

/** @returns `undefined` when nothing says which group: the server must be asked */
export function configuredGroup(config: Pick<NetworkConfig, "calicoApiGroup">, env: Environment): ApiGroup | undefined {
  const setting = env.CALICO_CALICO_API_GROUP || config.calicoApiGroup || env.CALICO_API_GROUP || "";
  if (setting === "") return undefined;
  return setting.toLowerCase() === V3_GROUP ? V3_GROUP : LEGACY_GROUP;
}

/** Asks the server once: v3 only where it has no legacy group, and legacy whenever it cannot tell. */
export async function discoverGroup(client: Pick<ApiClient, "request">): Promise<ApiGroup> {
  try {
    return (await servedGroup(client)) ?? LEGACY_GROUP;
  } catch {
    // A server that really cannot be reached shows at the next request.
    return LEGACY_GROUP;
  }
}

/** @returns the legacy group before v3; `undefined` when the server has neither @throws ApiError; Error for an answer that is not a list */
export async function servedGroup(client: Pick<ApiClient, "request">): Promise<ApiGroup | undefined> {
  const served = objects(parseObject(await client.request({ method: "GET", path: "/apis" })), "groups");
  const names = new Set(served.map((group) => text(group, "name")));
  return ([LEGACY_GROUP, V3_GROUP] as const).find((group) => names.has(groupName(group)));
}

function groupName(group: ApiGroup): string {
  return group.slice(0, group.indexOf("/"));
}
