/**
 * What the agent puts in the place of an executable's parts in blocks mode on a cluster (A§11.7): reads from copies and memory, writes
 * that are shared. One set of it serves all calls with one datastore.
 */

import { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import type { BlockWriterOptions } from "../../ipam-plugin/allocator/block-write.ts";
import { createIpamNode, type IpamNode } from "../../ipam-plugin/node.ts";
import { type NodeLock, takeNodeLock } from "../../ipam-plugin/node-lock.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { DatastoreError } from "../../lib/datastore/errors.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { NodeParts } from "../../main-plugin/node.ts";
import type { CachedDatastore } from "./cached-datastore.ts";
import type { CachedStoreInput } from "./cached-kubernetes.ts";
import { sharedServices } from "./claim-ahead.ts";

/** For a lane; other processes hold the lock for the whole of an ADD. */
const MOST_LOCK_WAIT_MS = 2_000;

export interface BlocksOptions extends Omit<CachedStoreInput, "config" | "env" | "nodeName" | "onDamaged"> {
  readonly onWrite?: BlockWriterOptions["onWrite"];
}

export type BlocksParts = Required<Pick<NodeParts, "openDatastore" | "createIpamNode">>;

export function blocksParts(options: BlocksOptions): BlocksParts {
  // Calls do not take the node's lock; each write that they share does, with the file that the last of them named.
  let lockFile: string | undefined;
  const lock = async () =>
    lockFile === undefined ? undefined : takeNodeLock(lockFile, { limitMs: MOST_LOCK_WAIT_MS, log: { writeNow: () => {} } });
  const services = sharedServices({ lock, onWrite: options.onWrite });
  return {
    openDatastore: (config, env, onDamaged) => open(config, env, options, onDamaged),
    createIpamNode(input) {
      const { datastore } = input;
      if (!isCached(datastore)) return createIpamNode(input);
      const noteFile: IpamNode["lock"] = async (path) => {
        lockFile = path;
        return NO_LOCK;
      };
      const node = createIpamNode({ ...input, lock: noteFile, hasMadeHandle: (handle) => datastore.hasMadeHandle(handle) });
      const log = (message: string): void => input.log.error(message);
      return { ...node, allocator: new Allocator({ datastore, clock: node.clock, log, ...services }) };
    },
  };
}

/** A local store is as near as a cache. */
async function open(
  config: NetworkConfig,
  env: Environment,
  options: BlocksOptions,
  onDamaged?: (error: DatastoreError) => void,
): Promise<Datastore> {
  const input = { config, env, nodeName: config.kubernetes.nodeName ?? nodeName(config), onDamaged, ...options };
  switch (chooseDatastore(config, env)) {
    case "kubernetes": {
      const { openCachedKubernetes } = await import("./cached-kubernetes.ts");
      return openCachedKubernetes(input);
    }
    case "etcdv3": {
      const { openCachedEtcd } = await import("./cached-etcd.ts");
      return openCachedEtcd(input);
    }
    default:
      return openDatastore(config, env, onDamaged);
  }
}

function isCached(datastore: Datastore): datastore is CachedDatastore {
  return "hasMadeHandle" in datastore;
}

const NO_LOCK: NodeLock = { hadToWait: false, [Symbol.dispose]() {} };
