/** The IPAM plugin of a DEL, CHECK, STATUS or GC. */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { connectIpam, findIpam, type IpamSource } from "./ipam-source.ts";
import type { Services } from "./services.ts";

export type Ipam = Pick<IpamSource, "run">;

/**
 * @param stdin what the plugin gets on standard input: the request's own bytes, or the edited configuration
 * @throws TortieError as `findIpam`
 */
export function chooseIpam(request: CniRequest, config: NetworkConfig, stdin: Uint8Array, services: Services): Ipam {
  const call = { config, env: services.env, log: services.log, datastore: services.datastoreType, nodeName: nodeName(config) };
  return connectIpam(findIpam(request, config), { request: { ...request, stdin }, config }, call, { ipam: services.ipamServices });
}
