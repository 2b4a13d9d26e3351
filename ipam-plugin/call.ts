/** Resolves what one call of the IPAM plugin asks for, in its executable or in the main plugin that serves it in the same process. */

import type { Address } from "../lib/addresses/address.ts";
import type { CniRequest, Environment, ValidAttachment } from "../lib/cni/protocol.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../lib/config/decode.ts";
import { nodeName } from "../lib/config/node-name.ts";
import type { Logger } from "../lib/log/logger.ts";
import { NEVER } from "../lib/system/waiting.ts";
import type { WorkloadIdentity } from "../lib/workload/identity.ts";

export interface IpamCall {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
  readonly datastore: DatastoreType;
  readonly nodeName: string;
  readonly log: Pick<Logger, "info" | "error" | "writeNow">;
  /** Aborts when the caller has given up; what was taken is given back all the same. */
  readonly signal: AbortSignal;
  /** Says what a GC must keep although the runtime does not list it. Absent: nothing. */
  readonly collection?: Collection;
  /** Containers whose links a GC has found and removed: their handles are known, whatever their ids look like. */
  readonly unplugged?: readonly string[];
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

/** Tells whose link or addresses a GC is about to remove. */
export interface CollectedOwner {
  readonly containerId: string;
  /** Absent: all interfaces of the container. */
  readonly ifname?: string;
}

/** Has what a process of many calls adds to a GC: others are added while it runs, which the specification of CNI leaves to runtimes. */
export interface Collection {
  /** Attachments of the network that have an operation under way now, or whose ADD has come since the GC began. */
  inUse(): readonly ValidAttachment[];
  /**
   * Removes something of an attachment that is not in use. An ADD of the container that comes meanwhile waits for it.
   * @returns false: it is in use, and nothing was done @throws what `work` throws
   */
  remove(owner: CollectedOwner, work: () => Promise<void>): Promise<boolean>;
}

/** Serves a process of one call: it knows of nothing else under way. */
export const LONE_COLLECTION: Collection = {
  inUse: () => [],
  remove: async (_, work) => {
    await work();
    return true;
  },
};
