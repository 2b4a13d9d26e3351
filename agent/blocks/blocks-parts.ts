/**
 * What the agent puts in the place of an executable's parts in blocks mode on a cluster (A§11.7): reads from copies and memory, writes
 * that are shared. One set of it serves all calls with one datastore.
 */
import { Allocator } from "../../ipam-plugin/allocator/allocator.ts";
import { createIpamNode, type IpamNode, type IpamNodeInput } from "../../ipam-plugin/node.ts";
import { type NodeLock, takeNodeLock } from "../../ipam-plugin/node-lock.ts";
import type { Environment } from "../../lib/cni/environment.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { DatastoreError } from "../../lib/datastore/errors.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import type { Logger } from "../../lib/log/logger.ts";
import type { NodeParts } from "../../main-plugin/node.ts";
import type { Tracing } from "../trace/tracing.ts";
import type { CachedDatastore } from "./cached-datastore.ts";
import { LanedWrites, type SharedWritesOptions } from "./shared-writes.ts";

/** For a lane; other processes hold the lock for the whole of an ADD. */
const MOST_LOCK_WAIT_MS = 2_000;

export interface BlocksOptions {
  /** Of the agent's own account, which may watch; absent: the account of its pod, and outside of pods each configuration's. */
  readonly kubeconfig?: string | undefined;
  readonly agentEnv?: Environment | undefined;
  readonly log: Pick<Logger, "error">;
  readonly onWrite?: SharedWritesOptions["onWrite"];
  readonly tracing?: Pick<Tracing, "during"> | undefined;
  /** `false`: this node's addresses come from its ranges, and its account may have no right to blocks (manifests/overlays/host-scope). */
  readonly hasOwnBlocks?: boolean;
}

export type BlocksParts = Required<Pick<NodeParts, "openDatastore" | "createIpamNode">>;

export function blocksParts(options: BlocksOptions): BlocksParts {
  const writes = new SharedUnderLock(options.onWrite);
  return {
    openDatastore: (config, env, onDamaged) => open(config, env, options, onDamaged),
    createIpamNode: (input) => (isCached(input.datastore) ? writes.nodeOf(input, input.datastore) : createIpamNode(input)),
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

/** Calls do not take the node's lock; each write that they share does, with the file that the last of them named. */
class SharedUnderLock {
  readonly #writes: LanedWrites;
  #lockFile: string | undefined;

  constructor(onWrite: SharedWritesOptions["onWrite"]) {
    this.#writes = new LanedWrites({ lock: () => this.#lock(), ...(onWrite === undefined ? {} : { onWrite }) });
  }

  nodeOf(input: IpamNodeInput, datastore: CachedDatastore): IpamNode {
    const lock: IpamNode["lock"] = async (path) => {
      this.#lockFile = path;
      return NO_LOCK;
    };
    const node = createIpamNode({ ...input, lock, hasMadeHandle: (handle) => datastore.hasMadeHandle(handle) });
    const log = (message: string): void => input.log.error(message);
    return { ...node, allocator: new Allocator({ datastore, clock: node.clock, log, shared: this.#writes }) };
  }

  async #lock(): Promise<NodeLock | undefined> {
    if (this.#lockFile === undefined) return undefined;
    return takeNodeLock(this.#lockFile, { limitMs: MOST_LOCK_WAIT_MS, log: { writeNow: () => {} } });
  }
}

const NO_LOCK: NodeLock = { hadToWait: false, [Symbol.dispose]() {} };
