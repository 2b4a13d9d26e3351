/**
 * Replaces an executable's parts in blocks mode on a cluster (A§11.7): reads come from copies and memory, writes are shared, and the next
 * block is claimed ahead of need. One set of these parts serves all calls with one datastore.
 */
import { claimUnlessOverlapping, isReady, NOT_OURS, upgradeHost } from "../../ipam-plugin/allocator/affinity.ts";
import { Allocator, type AllocatorServices, MOST_PARTS } from "../../ipam-plugin/allocator/allocator.ts";
import { freeOrdinals, isOwnedBy, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { BlockWriter, type BlockWriterOptions } from "../../ipam-plugin/allocator/block-write.ts";
import { effectiveLimit, firstFreeBlock } from "../../ipam-plugin/allocator/choose-block.ts";
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { choosePools, isInside, type UsablePool } from "../../ipam-plugin/allocator/pools.ts";
import type { AssignedAddress, FamilyRequest } from "../../ipam-plugin/allocator/types.ts";
import { createIpamHost, type IpamHost } from "../../ipam-plugin/host.ts";
import { type NodeLock, takeNodeLock } from "../../ipam-plugin/node-lock.ts";
import { bitsOf } from "../../lib/addresses/address.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import { nodeName } from "../../lib/config/node-name.ts";
import type { Datastore } from "../../lib/datastore/datastore.ts";
import type { DatastoreError } from "../../lib/datastore/errors.ts";
import { openDatastore } from "../../lib/datastore/open.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { type BackOff, pauseAfter } from "../../lib/system/waiting.ts";
import type { HostParts } from "../../main-plugin/host.ts";
import type { CachedDatastore } from "./cached-datastore.ts";
import type { CachedStoreInput } from "./cached-kubernetes.ts";

/** Limits the wait of a lane; other processes hold the lock for the whole of an ADD. */
const MOST_LOCK_WAIT_MS = 2_000;

export interface BlocksOptions extends Omit<CachedStoreInput, "config" | "env" | "nodeName" | "onDamaged"> {
  readonly onWrite?: BlockWriterOptions["onWrite"];
}

export type BlocksParts = Required<Pick<HostParts, "openDatastore" | "createIpamHost">>;

export function blocksParts(options: BlocksOptions): BlocksParts {
  // Calls do not take the node's lock; each write that they share does, with the file that the last of them named.
  let lockFile: string | undefined;
  const lock = async () =>
    lockFile === undefined ? undefined : takeNodeLock(lockFile, { limitMs: MOST_LOCK_WAIT_MS, log: { writeNow: () => {} } });
  const services = sharedServices({ lock, onWrite: options.onWrite });
  return {
    openDatastore: (config, env, onDamaged) => open(config, env, options, onDamaged),
    createIpamHost(input) {
      const { datastore } = input;
      if (!isCached(datastore)) return createIpamHost(input);
      const noteFile: IpamHost["lock"] = async (path) => {
        lockFile = path;
        return NO_LOCK;
      };
      const host = createIpamHost({ ...input, lock: noteFile, hasMadeHandle: (handle) => datastore.hasMadeHandle(handle) });
      const log = (message: string): void => input.log.error(message);
      return { ...host, allocator: new Allocator({ datastore, clock: host.clock, log, ...services }) };
    },
  };
}

/** Opens a datastore with copies; a local one needs none, since it is as near as a cache. */
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

/**
 * After claims in a row that were refused or failed: the limit of blocks, a full pool or a missing right do not go away by asking at every
 * ADD. Each look may list all blocks of the cluster, and every node does so, hence up to an hour.
 */
const PAUSES: BackOff = { base: 60_000, longest: 3_600_000 };

/** With the jitter. */
const MOST_PAUSE_MS = PAUSES.longest * 1.2;

/** Addresses that are left when the next block is claimed (A§11.7). */
const LOW_MARK = 16;

/** Of a block of fewer addresses: one part in so many, so that it is not low while it is half empty. */
const SMALL_BLOCK_PART = 4;

/** Makes the allocator's operations share their writes, and claims blocks ahead of need. */
export function sharedServices(options: Omit<BlockWriterOptions, "width"> = {}): Pick<AllocatorServices, "writer" | "onAssigned"> {
  const writer = new BlockWriter({ ...options, width: MOST_PARTS });
  const ahead = new AheadOfNeed(writer);
  return { writer, onAssigned: (operation, request, addresses) => ahead.assigned(operation, request, addresses) };
}

interface Pause {
  /** Milliseconds since 1970. */
  readonly until: number;
  /** Claims in a row that were refused or failed. */
  readonly failures: number;
}

/**
 * Claims the next block of this node before those that it has are full, so that no ADD waits for the claim (A§11.7): in the background,
 * once an assignment has left few addresses, and in the turn of ADDs that look for another block, so that a waiting ADD finds the new one.
 *
 * A block ahead of need is a convenience, so it is never taken from another node, not even an empty one. Anything unusual
 * among the owner's blocks is left to the next ADD, which looks at everything.
 */
class AheadOfNeed {
  readonly #writer: BlockWriter;
  /** Kinds of request that are looked after just now. */
  readonly #busy = new Set<string>();
  /** Kinds of request for which nothing is tried for a time. */
  readonly #pauses = new Map<string, Pause>();

  constructor(writer: BlockWriter) {
    this.#writer = writer;
  }

  /** Returns at once; what stands in the way of a claim is logged, and left to the ADD that needs the block. */
  assigned(operation: Operation, request: FamilyRequest, addresses: readonly AssignedAddress[]): void {
    const kind = kindOf(request);
    const last = addresses.findLast(({ isReused }) => !isReused);
    if (last === undefined || this.#busy.has(kind) || this.#isPausing(operation, kind)) return;
    this.#busy.add(kind);
    void this.#claim(operation, request, last.block, kind).finally(() => this.#busy.delete(kind));
  }

  async #claim(operation: Operation, request: FamilyRequest, cidr: string, kind: string): Promise<void> {
    try {
      if (!(await isRunningLow(operation, request, cidr))) return;
      await this.#writer.inTurn(request.family, async () => {
        // Uses an operation of its own, which does not end with the ADD and knows nothing of what that has read.
        const outcome = await claimAhead(operation.withoutSignal(), request);
        if (outcome === "none") this.#pause(operation, kind);
        else this.#pauses.delete(kind);
      });
    } catch (error) {
      this.#pause(operation, kind);
      operation.log(`no block was claimed ahead of need: ${messageOf(error)}`);
    }
  }

  #isPausing({ clock }: Operation, kind: string): boolean {
    const left = (this.#pauses.get(kind)?.until ?? 0) - clock.nowMs();
    // A clock that was set back must not make a pause longer than any is.
    return left > 0 && left <= MOST_PAUSE_MS;
  }

  #pause({ clock, random }: Operation, kind: string): void {
    const now = clock.nowMs();
    for (const [other, { until }] of this.#pauses) if (until + MOST_PAUSE_MS <= now) this.#pauses.delete(other);
    const failures = (this.#pauses.get(kind)?.failures ?? 0) + 1;
    this.#pauses.set(kind, { until: now + pauseAfter(failures, PAUSES, { random }), failures });
  }
}

/** Requests of one kind take their addresses from the same blocks. */
function kindOf({ family, owner, requestedPools, use }: FamilyRequest): string {
  return JSON.stringify([family, owner, requestedPools, use]);
}

/**
 * Says whether few addresses are left in a block that was granted from, as far as this process knows. Asks the store for nothing that the
 * operation has read before.
 */
async function isRunningLow(operation: Operation, request: FamilyRequest, cidr: string): Promise<boolean> {
  const pools = (await poolsOf(operation, request)).filter((pool) => isInside([pool], prefixOf(cidr)));
  return (await freeIn(operation, request, cidr)) < lowMarkOf(pools);
}

/** Places that are tried ahead of need: one that is lost to another node, or overlaps with a block of another size, leads to the next. */
const MOST_CHOICES = 3;

/** `room`: there is enough without another block. `none`: the owner may have no more, or no block is free. */
type ClaimedAhead = "claimed" | "room" | "none";

/** @param operation one that has read nothing yet, and whose first reads may come from memory */
async function claimAhead(operation: Operation, request: FamilyRequest): Promise<ClaimedAhead> {
  if (await hasRoom(operation, request)) return "room";
  // A pool that is gone or was made again, or blocks beyond the limit, would do harm; an old reservation or configuration only costs a
  // block.
  operation.refresh("pools", "affinities");
  if (await hasRoom(operation, request)) return "room";
  const { owner, family, blockLimit } = request;
  if ((await upgradeHost(operation, owner)) > 0) return "room";
  const affinities = await operation.affinities(family);
  const configuration = await operation.configuration();
  if (!configuration.autoAllocateBlocks || affinities.length >= effectiveLimit(configuration, blockLimit)) return "none";
  await operation.requireNode();
  const pools = await poolsOf(operation, request);
  const excluded = new Set(affinities.map(({ value }) => value.cidr));
  for (let tries = 0; tries < MOST_CHOICES; tries++) {
    const choice = await firstFreeBlock(operation, { owner, pools, excluded });
    if (choice === undefined) return "none";
    const block = await claimUnlessOverlapping(operation, { owner, cidr: choice.cidr, expectBlock: choice.exists });
    if (block !== NOT_OURS) return "claimed";
    excluded.add(choice.cidr);
  }
  return "none";
}

/** Says whether the owner's blocks have enough addresses, or an affinity must be mended before that can be known. */
async function hasRoom(operation: Operation, request: FamilyRequest): Promise<boolean> {
  const pools = await poolsOf(operation, request);
  const candidates = (await operation.affinities(request.family)).filter(({ value }) => isInside(pools, prefixOf(value.cidr)));
  if (!candidates.every(({ value }) => isReady(value))) return true;
  const enough = lowMarkOf(pools);
  let free = 0;
  for (const { value } of candidates) {
    free += await freeIn(operation, request, value.cidr);
    if (free >= enough) return true;
  }
  return false;
}

/** Counts the free addresses of a block as this process knows it: 0 if it is not the owner's. */
async function freeIn(operation: Operation, { owner }: FamilyRequest, cidr: string): Promise<number> {
  const block = await operation.datastore.blocks.get(cidr, { mayBeOld: true });
  if (block === undefined || !isOwnedBy(block.value, owner)) return 0;
  return freeOrdinals(await operation.normalised(block.value), await operation.reservations()).length;
}

function poolsOf(operation: Operation, { family, requestedPools, use, owner }: FamilyRequest): Promise<readonly UsablePool[]> {
  return choosePools(operation, { family, requested: requestedPools, use, host: owner.name });
}

/** Computes the low mark by the largest blocks of the pools. */
function lowMarkOf(pools: readonly UsablePool[]): number {
  const sizes = pools.map(({ pool, prefix }) => 2 ** (bitsOf(prefix.address.family) - pool.blockSize));
  return Math.min(LOW_MARK, Math.max(0, ...sizes) / SMALL_BLOCK_PART);
}
