/**
 * The effects that the verbs of the main plugin need, each opened at first use only. None is closed: the process ends with its one
 * operation, and a local datastore that is closed by the last process would be copied back into its file, with three waits for the
 * disk, at the end of every single ADD (docs/decisions.md).
 */
import type { Dataplane } from "../dataplane/dataplane.ts";
import { LinuxDataplane } from "../dataplane/linux/linux-dataplane.ts";
import { createIpamServices, type IpamServices } from "../ipam-plugin/services.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { once } from "../lib/system/once.ts";
import type { Access } from "./access.ts";

export interface Services extends Access {
  readonly dataplane: Dataplane;
  /** What the IPAM plugin needs when it is served in this process. */
  ipamServices(): Promise<IpamServices>;
}

export function createServices(config: NetworkConfig, access: Access): Services {
  const { env, log, datastore } = access;
  return {
    ...access,
    dataplane: new LinuxDataplane(),
    ipamServices: once(async () => createIpamServices({ datastore: await datastore(), node: nodeName(config), env, log })),
  };
}
