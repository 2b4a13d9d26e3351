/** What one call of the IPAM plugin asks for: resolved by its executable, or by the main plugin that serves it in the same process. */

import type { Address } from "../lib/addresses/address.ts";
import type { Environment } from "../lib/cni/environment.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import type { Logger } from "../lib/log/logger.ts";
import { NEVER } from "../lib/system/waiting.ts";
import type { WorkloadIdentity } from "../lib/workload/identity.ts";
import type { Collection } from "./collection.ts";

export interface IpamCall {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
  readonly datastore: DatastoreType;
  readonly nodeName: string;
  readonly log: Pick<Logger, "info" | "error" | "writeNow">;
  /** Aborts when the caller has given up; what was taken is given back all the same. */
  readonly signal: AbortSignal;
  /** In a process that lives on, of a GC. */
  readonly residence?: { readonly collection?: Collection };
  /** Absent: as the request says. */
  readonly identity?: WorkloadIdentity;
  /** Absent: as the request says. */
  readonly requested?: { readonly addresses: readonly Address[] };
}

/** @throws TortieError `netconf-value` */
export function resolveIpamCall(
  request: CniRequest,
  config: NetworkConfig,
  env: Environment,
  log: IpamCall["log"],
  signal: AbortSignal = NEVER,
): IpamCall {
  return { request, config, datastore: chooseDatastore(config, env), nodeName: nodeName(config), log, signal };
}
